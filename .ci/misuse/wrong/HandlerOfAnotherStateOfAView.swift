// The handler takes a number, and the view has a shop.
// says: value of type '@Sendable (Int) -> Void' to expected argument type '@Sendable (Shop) -> Void'
func wrong(view: FluxView<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = view.subscribe(number)
}
