// A reaction is to a type.
func wrong(store: FluxStore<Shop>) {
    store.on(LogOut()) { state, _ in state.n = 0 }
}
