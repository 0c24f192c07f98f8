// The handler may be called on another thread.
// says: passing non-Sendable parameter 'plain'
func wrong(store: FluxStore<Shop>, plain: @escaping (Shop) -> Void) {
    _ = store.subscribe(plain)
}
