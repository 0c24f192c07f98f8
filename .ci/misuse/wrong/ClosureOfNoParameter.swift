// The handler of a state has a parameter.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe { print("changed") }
}
