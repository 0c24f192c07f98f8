// The converter needs a text.
// says: value of type 'Int' to expected argument type 'String'
func wrong() {
    _ = FluxActionCreator<ShopConverter>(dependency: 3)
}
