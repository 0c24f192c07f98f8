// The command needs a text.
func wrong(store: FluxStore<Shop>) {
    store.run(Restock(), dependency: 3)
}
