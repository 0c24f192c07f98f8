// The handler of several parts gets the state and what has changed.
// says: expects 2 arguments, but 1 was used in closure body
func wrong(view: FluxView<Shop>) {
    _ = view.subscribe(toAnyOf: \.n, \.cart) { state in print(state.n) }
}
