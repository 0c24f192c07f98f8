/// Something that happened, named from the outside: a tap, a request, a line that was read.
///
/// An event says nothing about the state. A ``FluxActionConverter`` turns it into actions, which do.
///
/// Thread safety: an event moves from the thread that fires it to the one that converts it, so it is `Sendable`.
nonisolated public protocol FluxEvent: Sendable {}
