// The handler of several parts gets the state and what has changed.
func wrong(view: FluxView<Shop>) {
    _ = view.subscribe(toAnyOf: \.n, \.cart) { state in print(state.n) }
}
