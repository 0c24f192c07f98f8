// A group is one source: its members come by key.
// says: expects 1 argument, but 2 were used in closure body
func viewOfAGroup(_ rooms: FluxView<[String: FluxStore<Shop>]>) -> FluxView<Int> {
    FluxView(rooms) { key, shop in shop.n }
}
