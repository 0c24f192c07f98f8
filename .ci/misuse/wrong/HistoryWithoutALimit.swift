// How much a history keeps is said.
func wrong(store: FluxStore<Shop>) {
    _ = FluxHistory(store)
}
