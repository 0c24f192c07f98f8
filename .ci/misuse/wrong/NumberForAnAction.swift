// A number is no action.
// says: requires that 'Int' conform to 'FluxAction'
func wrong(dispatcher: FluxDispatcher) {
    dispatcher.dispatch(action: 3)
}
