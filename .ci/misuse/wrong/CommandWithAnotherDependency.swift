// The command needs a text.
// says: value of type 'Int' to expected argument type 'String'
func wrong(store: FluxStore<Shop>) {
    store.run(Restock(), dependency: 3)
}
