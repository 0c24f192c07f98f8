// The handler gets an action that was applied.
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribeActions(handler)
}
