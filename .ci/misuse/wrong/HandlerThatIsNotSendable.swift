// The handler may be called on another thread.
func wrong(store: FluxStore<Shop>, plain: @escaping (Shop) -> Void) {
    _ = store.subscribe(plain)
}
