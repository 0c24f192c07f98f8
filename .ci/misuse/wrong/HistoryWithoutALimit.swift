// How much a history keeps is said.
// says: missing argument for parameter 'limit'
func wrong(store: FluxStore<Shop>) {
    _ = FluxHistory(store)
}
