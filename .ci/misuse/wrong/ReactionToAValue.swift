// A reaction is to a type.
// says: value of type 'LogOut' to expected argument type 'Action.Type'
func wrong(store: FluxStore<Shop>) {
    store.on(LogOut()) { state, _ in state.n = 0 }
}
