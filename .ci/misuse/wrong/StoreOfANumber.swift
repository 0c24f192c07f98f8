// A number is no state.
// says: requires that 'Int' conform to 'FluxState'
func wrong() {
    _ = FluxStore(initialState: 3)
}
