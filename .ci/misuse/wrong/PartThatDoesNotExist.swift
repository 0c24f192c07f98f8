// A shop has no such part.
// says: value of type 'Shop' has no member 'customers'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(to: \.customers) { print($0) }
}
