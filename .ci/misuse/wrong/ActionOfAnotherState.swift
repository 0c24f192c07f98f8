// A store takes the actions of its state.
func wrong(store: FluxStore<Shop>) {
    store.dispatch(action: LogOut())
}
