// The closure gets the state and the action.
func wrong(store: FluxStore<Shop>) {
    store.on(LogOut.self) { state in state.n = 0 }
}
