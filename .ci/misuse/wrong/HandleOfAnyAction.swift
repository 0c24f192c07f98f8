// A state has actions of one type: for those of others there are reactions.
struct Counter: FluxState {
    var count = 0
    mutating func handle(action: any FluxAction) -> Counter? { self }
}
