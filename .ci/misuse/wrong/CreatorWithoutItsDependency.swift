// The converter needs a text.
func wrong() {
    _ = FluxActionCreator<ShopConverter>()
}
