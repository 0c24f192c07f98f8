// A store is no handler.
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = store.subscribe(other)
}
