// A number is no state.
func wrong() {
    _ = FluxStore(initialState: 3)
}
