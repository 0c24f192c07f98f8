// A shop has no such part.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: \.n, \.customers) { state, changed in print(state, changed) }
}
