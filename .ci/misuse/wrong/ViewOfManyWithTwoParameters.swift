// The closure gets an array of states.
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = FluxView([store, other]) { one, two in one.n + two.n }
}
