// A dictionary is no group: its values are a collection of sources.
func viewOfADictionary(_ stores: [String: FluxStore<Shop>]) -> FluxView<Int> {
    FluxView(stores) { shops in shops.values.reduce(0) { $0 + $1.n } }
}
