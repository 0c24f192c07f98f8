// A shop has no such part.
// says: cannot infer key path type from context
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: \.n, \.customers) { state, changed in print(state, changed) }
}
