// Several parts are `toAnyOf:`.
// says: to expected argument type 'FluxDelivery'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(to: \.n, \.cart) { state, changed in print(state, changed) }
}
