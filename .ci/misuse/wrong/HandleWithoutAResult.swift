// With a type that may apply itself in another module, the compiler must not take that for the action of every state.
// says: type 'Counter' does not conform to protocol 'FluxState'
struct Counter: FluxState {
    var count = 0
    mutating func handle(action: Counted) { count += 1 }
}
struct Counted: FluxAction {}
