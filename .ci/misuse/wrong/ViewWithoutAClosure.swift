// The value is made by a closure.
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = FluxView(store, other)
}
