// The handler of several parts gets the state and what has changed.
// says: expects 2 arguments, which cannot be implicitly ignored
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: \.n, \.cart) { print("changed") }
}
