// A handler is no source.
// says: type '@Sendable (Shop) -> Void' cannot conform to 'FluxSource'
func wrong(handler: @escaping @Sendable (Shop) -> Void) {
    _ = FluxView(handler) { $0 }
}
