// Sources of different states are passed one by one, however values are compared.
// says: Pass them one by one
func viewOfAnArrayOfOtherStatesBy(_ store: FluxStore<Shop>, _ counter: FluxView<Int>) -> FluxView<Int> {
    FluxView([store, counter], by: { $0 == $1 }) { $0.count }
}
