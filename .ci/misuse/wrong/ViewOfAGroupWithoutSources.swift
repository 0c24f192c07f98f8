// The members are no sources, and nothing says what of them is.
// says: requires that 'Till2' conform to 'FluxSource'
struct Till2: Sendable { let store: FluxStore<Shop> }

func viewOfAGroup(_ tills: FluxView<[String: Till2]>) -> FluxView<Int> {
    FluxView(tills) { shops in shops.values.reduce(0) { $0 + $1.n } }
}
