// There is no such event.
func wrong(store: FluxStore<Shop>) {
    FluxActionCreator<ShopConverter>(dependency: "", store: store).fire(.remove)
}
