// The handler takes a number, and the part is a list.
// says: key path value type '[String]' cannot be converted to contextual type 'Int'
func wrong(store: FluxStore<Shop>, number: @escaping @Sendable (Int) -> Void) {
    _ = store.subscribe(to: \.cart, number)
}
