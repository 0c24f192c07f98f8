// A shop has no such part.
// says: value of type 'Shop' has no member 'customers'
func wrong(store: FluxStore<Shop>) async throws {
    for await value in store.values(of: \.customers) { print(value) }
}
