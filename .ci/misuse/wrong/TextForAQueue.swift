// A queue is not named by a text.
// says: value of type 'String' to expected argument type 'FluxMainQueue'
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(on: "main") { print($0.n) }
}
