// The action has to be a FluxAction.
// says: type 'Counter' does not conform to protocol 'FluxState'
struct Counter: FluxState {
    var count = 0
    mutating func handle(action: Counted) -> Counter? { self }
}
struct Counted {}
