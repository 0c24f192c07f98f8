// The closure gets the action and what comes next.
func wrong(dispatcher: FluxDispatcher) {
    dispatcher.add(.on(LogOut.self) { action in print(action) })
}
