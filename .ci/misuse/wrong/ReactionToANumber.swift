// A number is no action.
// says: requires that 'Int' conform to 'FluxAction'
func wrong(store: FluxStore<Shop>) {
    store.on(Int.self) { _, _ in }
}
