// A store takes the actions of its state.
// says: value of type 'LogOut' to expected argument type 'Shop.Action'
func wrong(store: FluxStore<Shop>) {
    store.dispatch(action: LogOut())
}
