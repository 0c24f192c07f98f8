// The handler of a view has one parameter.
// says: expects 1 argument, but 2 were used in closure body
func wrong(view: FluxView<Shop>) {
    _ = view.subscribe { state, changed in print(state, changed) }
}
