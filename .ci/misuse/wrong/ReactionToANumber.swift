// A number is no action.
func wrong(store: FluxStore<Shop>) {
    store.on(Int.self) { _, _ in }
}
