// The closure gets the state and the action.
// says: expects 2 arguments, but 1 was used in closure body
func wrong(store: FluxStore<Shop>) {
    store.on(LogOut.self) { state in state.n = 0 }
}
