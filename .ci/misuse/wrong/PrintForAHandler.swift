// `print` has other parameters.
// says: to expected argument type '@Sendable (Shop) -> Void'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(print)
}
