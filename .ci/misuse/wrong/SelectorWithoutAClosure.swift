// The value is made by a closure.
// says: missing argument for parameter #3
func wrong() {
    _ = fluxSelector(\Shop.n)
}
