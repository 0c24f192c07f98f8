// A number is no source.
// says: requires that 'Int' conform to 'FluxSource'
func wrong(store: FluxStore<Shop>) {
    _ = FluxView(store, 3) { one, two in one.n }
}
