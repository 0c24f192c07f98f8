// The part is given with a label.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(\.n) { print($0) }
}
