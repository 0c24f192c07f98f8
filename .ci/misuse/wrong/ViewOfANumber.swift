// A number is no source.
func wrong(store: FluxStore<Shop>) {
    _ = FluxView(store, 3) { one, two in one.n }
}
