// The value of a view is compared: a tuple needs `by:`.
// says: Equatable
func viewOfAnArrayWhatIsNotEquatable(_ stores: [FluxStore<Shop>]) {
    _ = FluxView(stores) { shops in (shops.count, 1) }
}
