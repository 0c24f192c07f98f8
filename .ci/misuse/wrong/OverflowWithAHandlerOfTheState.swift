// The handler gets a state or an error.
// says: to expected argument type '@Sendable (Result<Shop, FluxOverflow>) -> Void'
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribe(failingAfter: 3, handler)
}
