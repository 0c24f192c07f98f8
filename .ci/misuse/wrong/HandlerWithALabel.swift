// The handler has no label.
// says: extraneous argument label 'handler:'
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribe(handler: handler)
}
