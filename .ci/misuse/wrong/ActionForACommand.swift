// An action is no command.
func wrong(store: FluxStore<Shop>) {
    store.run(LogOut())
}
