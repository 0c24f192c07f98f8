// There is no subscription without a handler.
// says: 'nil' is not compatible with expected argument type '@Sendable (Shop) -> Void'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(nil)
}
