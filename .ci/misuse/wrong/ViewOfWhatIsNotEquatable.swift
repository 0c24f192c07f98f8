// What is not Equatable is compared `by:` a closure.
func wrong(store: FluxStore<Shop>) {
    _ = store.view { $0 }
}
