// The parts are key paths, so that it can be said which has changed.
// says: 'KeyPath<Shop, some Equatable & Sendable> & Sendable' that does not accept a closure
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: { $0.n }) { state, changed in print(state, changed) }
}
