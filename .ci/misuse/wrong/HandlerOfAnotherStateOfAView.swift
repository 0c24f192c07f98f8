// The handler takes a number, and the view has a shop.
func wrong(view: FluxView<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = view.subscribe(number)
}
