// The handler of a state has a parameter.
// says: expects 1 argument, which cannot be implicitly ignored
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe { print("changed") }
}
