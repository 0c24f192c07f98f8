// A handler is no source.
func wrong(handler: @escaping @Sendable (Shop) -> Void) {
    _ = FluxView(handler) { $0 }
}
