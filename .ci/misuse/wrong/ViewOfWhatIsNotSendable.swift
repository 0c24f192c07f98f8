// The value of a view goes from thread to thread.
// says: type 'Till' does not conform to the 'Sendable' protocol
func wrong(store: FluxStore<Shop>) {
    _ = FluxView(store, by: { _, _ in true }) { _ in Till() }
}
