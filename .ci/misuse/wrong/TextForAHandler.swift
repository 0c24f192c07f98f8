// A text is no handler.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe("changed")
}
