// A queue is not named by a text.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(on: "main") { print($0.n) }
}
