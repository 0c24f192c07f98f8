// The closure gets a state of each source.
// says: expects 2 arguments, but 1 was used in closure body
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = FluxView(store, other) { one in one.n }
}
