// There is no subscription without a handler.
// says: type '@Sendable (Shop) -> Void' has no member 'latest'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(.latest)
}
