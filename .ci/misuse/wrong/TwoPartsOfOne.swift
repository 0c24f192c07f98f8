// Several parts are `toAnyOf:`.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(to: \.n, \.cart) { state, changed in print(state, changed) }
}
