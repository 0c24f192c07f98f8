// A number is no action.
func wrong(dispatcher: FluxDispatcher) {
    dispatcher.dispatch(action: 3)
}
