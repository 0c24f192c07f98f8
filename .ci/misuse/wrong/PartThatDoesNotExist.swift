// A shop has no such part.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(to: \.customers) { print($0) }
}
