// A state has actions of one type: for those of others there are reactions.
// says: type 'Counter' does not conform to protocol 'FluxState'
struct Counter: FluxState {
    var count = 0
    mutating func handle(action: any FluxAction) -> Counter? { self }
}
