// A group is one source: its members come by key.
func viewOfAGroup(_ rooms: FluxView<[String: FluxStore<Shop>]>) -> FluxView<Int> {
    FluxView(rooms) { key, shop in shop.n }
}
