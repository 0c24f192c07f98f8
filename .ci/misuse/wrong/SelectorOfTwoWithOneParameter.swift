// The closure gets each of the inputs.
func wrong() {
    _ = fluxSelector(\Shop.n, \Shop.cart) { n in n }
}
