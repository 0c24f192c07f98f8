// The handler takes a number, and the source has a shop.
// says: value of type '@Sendable (Int) -> Void' to expected argument type '@Sendable (Shop) -> Void'
func wrong(source: any FluxSource<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = source.subscribe(number)
}
