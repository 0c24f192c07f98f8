// A handler is no source.
// says: cannot convert value of type '@Sendable (Shop) -> Void' to expected argument type '[any FluxSource]'
func wrong(handler: @escaping @Sendable (Shop) -> Void) {
    _ = FluxView(handler) { $0 }
}
