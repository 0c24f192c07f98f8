// The closure gets a state of each source.
func wrong(store: FluxStore<Shop>) {
    _ = FluxView(store) { one, two in one.n + two.n }
}
