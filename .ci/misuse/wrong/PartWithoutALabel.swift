// The part is given with a label.
// says: call to instance method 'subscribe'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(\.n) { print($0) }
}
