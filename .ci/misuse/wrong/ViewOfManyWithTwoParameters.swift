// The closure gets an array of states.
// says: '[FluxStore<Shop>]' and '_, _' have the same shape
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = FluxView([store, other]) { one, two in one.n + two.n }
}
