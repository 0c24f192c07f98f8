// The handler gets a state or an error.
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribe(failingAfter: 3, handler)
}
