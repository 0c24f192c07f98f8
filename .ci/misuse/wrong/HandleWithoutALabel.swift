// The requirement has the label `action`.
struct Counter: FluxState {
    var count = 0
    mutating func handle(_ action: Counted) -> Counter? { self }
}
struct Counted: FluxAction {}
