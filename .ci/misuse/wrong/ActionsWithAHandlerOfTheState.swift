// The handler gets an action that was applied.
// says: to expected argument type '@Sendable (FluxAppliedAction<Shop.Action>) -> Void'
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribeActions(handler)
}
