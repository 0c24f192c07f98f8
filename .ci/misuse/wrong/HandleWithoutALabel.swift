// The requirement has the label `action`.
// says: type 'Counter' does not conform to protocol 'FluxState'
struct Counter: FluxState {
    var count = 0
    mutating func handle(_ action: Counted) -> Counter? { self }
}
struct Counted: FluxAction {}
