// A shop has no such part.
func wrong(store: FluxStore<Shop>) async throws {
    for await value in store.values(of: \.customers) { print(value) }
}
