// There is no such delivery.
// says: reference to member 'newest' cannot be resolved
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(.newest) { print($0.n) }
}
