// The value of a view goes from thread to thread.
func wrong(store: FluxStore<Shop>) {
    _ = FluxView(store, by: { _, _ in true }) { _ in Till() }
}
