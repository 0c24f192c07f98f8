// The handler takes a number, and the part is a list.
func wrong(store: FluxStore<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = store.subscribe(to: \.cart, number)
}
