// A text is no handler.
// says: value of type 'String' to expected argument type '@Sendable (Shop) -> Void'
func wrong(view: FluxView<Shop>) {
    _ = view.subscribe("changed")
}
