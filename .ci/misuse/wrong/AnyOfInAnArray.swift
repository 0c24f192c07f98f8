// The parts are given one by one.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: [\.n, \.cart]) { state, changed in print(state, changed) }
}
