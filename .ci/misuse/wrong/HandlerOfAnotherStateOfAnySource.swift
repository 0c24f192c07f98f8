// The handler takes a number, and the source has a shop.
func wrong(source: any FluxSource<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = source.subscribe(number)
}
