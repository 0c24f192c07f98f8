// The closure gets a state of each source.
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = FluxView(store, other) { one in one.n }
}
