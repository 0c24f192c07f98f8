// The handler of several parts gets the state and what has changed.
// says: expects 2 arguments, but 3 were used in closure body
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: \.n, \.cart) { state, changed, more in print(state, changed, more) }
}
