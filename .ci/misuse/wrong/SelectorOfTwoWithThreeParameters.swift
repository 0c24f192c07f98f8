// The closure gets each of the inputs.
// says: 'Int, [String]' and 'Value, _, _' have the same shape
func wrong() {
    _ = fluxSelector(\Shop.n, \Shop.cart) { n, cart, more in n }
}
