// The handler takes a number, and the store has a shop.
func wrong(store: FluxStore<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = store.subscribe(number)
}
