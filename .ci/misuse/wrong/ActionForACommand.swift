// An action is no command.
// says: call to instance method 'run'
func wrong(store: FluxStore<Shop>) {
    store.run(LogOut())
}
