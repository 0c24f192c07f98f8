// There is no subscription without a handler.
// says: missing argument for parameter #1
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe()
}
