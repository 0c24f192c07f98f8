// The command needs a text.
// says: call to instance method 'run'
func wrong(store: FluxStore<Shop>) {
    store.run(Restock())
}
