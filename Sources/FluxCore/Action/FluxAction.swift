/// A change that a state knows how to make.
///
/// Usually an enum with payloads. Every store whose `State.Action` is this type and that is attached to the
/// ``FluxDispatcher`` receives it; stores of other action types are not even looked at.
///
/// Thread safety: an action is handed from the thread that converts to the one that dispatches, so it is `Sendable`.
nonisolated public protocol FluxAction: Sendable {}
