// The handler comes last.
// says: call to instance method 'subscribe'
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribe(handler, on: .main)
}
