// Sources of different states are passed one by one.
// says: Pass them one by one
func viewOfAnArrayOfOtherStates(_ store: FluxStore<Shop>, _ counter: FluxView<Int>) -> FluxView<Int> {
    FluxView([store, counter]) { $0.count }
}
