// The converter needs a text.
// says: requires the types 'String' and '()' be equivalent
func wrong() {
    _ = FluxActionCreator<ShopConverter>()
}
