// The handler of a state has one parameter.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe { state, changed in print(state, changed) }
}
