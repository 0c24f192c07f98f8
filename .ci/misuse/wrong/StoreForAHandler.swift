// A store is no handler.
// says: value of type 'FluxStore<Shop>' to expected argument type '@Sendable (Shop) -> Void'
func wrong(store: FluxStore<Shop>, other: FluxStore<Shop>) {
    _ = store.subscribe(other)
}
