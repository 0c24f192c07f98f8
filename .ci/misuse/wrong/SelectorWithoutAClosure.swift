// The value is made by a closure.
func wrong() {
    _ = fluxSelector(\Shop.n)
}
