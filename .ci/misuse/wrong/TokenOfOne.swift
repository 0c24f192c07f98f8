// One token is one already.
func wrong(store: FluxStore<Shop>) {
    _ = FluxSubscription(store.subscribe { _ in })
}
