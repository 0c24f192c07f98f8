// A text is no handler.
// says: value of type 'String' to expected argument type '@Sendable (Shop) -> Void'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe("changed")
}
