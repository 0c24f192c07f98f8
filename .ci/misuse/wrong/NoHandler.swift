// There is no subscription without a handler.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe()
}
