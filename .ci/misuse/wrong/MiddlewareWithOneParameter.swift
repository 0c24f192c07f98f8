// The closure gets the action and what comes next.
// says: expects 2 arguments, but 1 was used in closure body
func wrong(dispatcher: FluxDispatcher) {
    dispatcher.add(.on(LogOut.self) { action in print(action) })
}
