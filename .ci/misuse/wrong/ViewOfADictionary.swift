// A dictionary is no group: its values are a collection of sources.
// says: requires that '[String : FluxStore<Shop>]' conform to 'FluxSource'
func viewOfADictionary(_ stores: [String: FluxStore<Shop>]) -> FluxView<Int> {
    FluxView(stores) { shops in shops.values.reduce(0) { $0 + $1.n } }
}
