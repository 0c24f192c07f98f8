// A dispatcher takes any action, so its type is written.
func wrong(dispatcher: FluxDispatcher) {
    dispatcher.dispatch(action: .add(1))
}
