// The handler of several parts gets the state and what has changed.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: \.n, \.cart, on: .main) { state in print(state.n) }
}
