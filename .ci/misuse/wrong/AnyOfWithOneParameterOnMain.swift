// The handler of several parts gets the state and what has changed.
// says: expects 2 arguments, but 1 was used in closure body
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: \.n, \.cart, on: .main) { state in print(state.n) }
}
