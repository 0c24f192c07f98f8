// There is no such event.
// says: expects argument of type '[ShopConverter.Event]'
func wrong(store: FluxStore<Shop>) {
    FluxActionCreator<ShopConverter>(dependency: "", store: store).fire(.remove)
}
