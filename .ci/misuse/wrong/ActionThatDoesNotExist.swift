// There is no such action.
// says: type 'Shop.Action' has no member 'remove'
func wrong(store: FluxStore<Shop>) {
    store.dispatch(action: .remove)
}
