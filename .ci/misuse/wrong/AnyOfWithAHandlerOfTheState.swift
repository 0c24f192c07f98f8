// The handler of several parts gets the state and what has changed.
// says: to expected argument type '@Sendable (Shop, Set<PartialKeyPath<Shop>>) -> Void'
func wrong(store: FluxStore<Shop>, handler: @escaping @Sendable (Shop) -> Void) {
    _ = store.subscribe(toAnyOf: \.n, \.cart, handler)
}
