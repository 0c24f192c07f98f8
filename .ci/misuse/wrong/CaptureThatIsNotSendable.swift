// What the handler captures goes to another thread.
// says: capture of 'till' with non-Sendable type 'Till'
func wrong(store: FluxStore<Shop>, till: Till) {
    _ = store.subscribe { till.amount += $0.n }
}
