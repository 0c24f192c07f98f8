// The closure gets a state of each source.
// says: 'FluxStore<Shop>' and '_, _' have the same shape
func wrong(store: FluxStore<Shop>) {
    _ = FluxView(store) { one, two in one.n + two.n }
}
