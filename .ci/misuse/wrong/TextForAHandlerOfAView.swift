// A text is no handler.
func wrong(view: FluxView<Shop>) {
    _ = view.subscribe("changed")
}
