// The value is made by a closure.
// says: missing argument label 'transform:'
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = FluxView(store, other)
}
