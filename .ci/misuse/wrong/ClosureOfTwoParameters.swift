// The handler of a state has one parameter.
// says: expects 1 argument, but 2 were used in closure body
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe { state, changed in print(state, changed) }
}
