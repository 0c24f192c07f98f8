// The handler comes last.
// says: type '@Sendable (Shop) -> Void' has no member 'latest'
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribe(handler, .latest)
}
