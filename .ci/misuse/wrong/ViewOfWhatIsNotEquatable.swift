// What is not Equatable is compared `by:` a closure.
// says: requires that 'Shop' conform to 'Equatable'
func wrong(store: FluxStore<Shop>) {
    _ = store.view { $0 }
}
