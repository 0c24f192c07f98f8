// There is no subscription without a handler.
// says: function type '(Shop, Set<PartialKeyPath<Shop>>) -> Void'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(toAnyOf: \.n, \.cart)
}
