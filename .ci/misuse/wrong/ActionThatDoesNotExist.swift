// There is no such action.
func wrong(store: FluxStore<Shop>) {
    store.dispatch(action: .remove)
}
