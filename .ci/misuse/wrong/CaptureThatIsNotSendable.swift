// What the handler captures goes to another thread.
func wrong(store: FluxStore<Shop>, till: Till) {
    _ = store.subscribe { till.amount += $0.n }
}
