// The handler takes a number, and the store has a shop.
// says: value of type '@Sendable (Int) -> Void' to expected argument type '@Sendable (Shop) -> Void'
func wrong(store: FluxStore<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = store.subscribe(number)
}
