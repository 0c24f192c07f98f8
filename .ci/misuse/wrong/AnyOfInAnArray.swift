// The parts are given one by one.
// says: value of type '[Any]' to expected argument type 'KeyPath<Shop, some Equatable & Sendable>'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: [\.n, \.cart]) { state, changed in print(state, changed) }
}
