// The handler of a view has one parameter.
func wrong(view: FluxView<Shop>) {
    _ = view.subscribe { state, changed in print(state, changed) }
}
