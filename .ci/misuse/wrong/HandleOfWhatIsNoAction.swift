// The action has to be a FluxAction.
struct Counter: FluxState {
    var count = 0
    mutating func handle(action: Counted) -> Counter? { self }
}
struct Counted {}
