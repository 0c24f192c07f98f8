// There is no such delivery.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(.newest) { print($0.n) }
}
