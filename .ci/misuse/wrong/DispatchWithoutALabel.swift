// The label that is missing is `action`, and not that of the dispatch which needs a log.
// says: 'dispatch' has been renamed to 'dispatch(action:)'
func wrong(store: FluxStore<Shop>) async throws {
    store.dispatch(.add(1))
}
