// A dispatcher takes any action, so its type is written.
// says: type 'FluxAction' has no member 'add'
func wrong(dispatcher: FluxDispatcher) {
    dispatcher.dispatch(action: .add(1))
}
