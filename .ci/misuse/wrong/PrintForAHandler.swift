// `print` has other parameters.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(print)
}
