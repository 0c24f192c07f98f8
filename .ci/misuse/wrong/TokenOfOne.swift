// One token is one already.
// says: value of type 'FluxSubscription' to expected argument type '[FluxSubscription]'
func wrong(store: FluxStore<Shop>) {
    _ = FluxSubscription(store.subscribe { _ in })
}
