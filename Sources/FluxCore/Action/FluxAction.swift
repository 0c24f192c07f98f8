/// A change that a state knows how to make.
///
/// Usually an enum with payloads. Every store whose `State.Action` is this type and that is attached to the
/// ``FluxDispatcher`` receives it; stores of other action types are not even looked at.
///
/// Thread safety: an action is handed from the thread that converts to the one that dispatches, so it is `Sendable`.
nonisolated public protocol FluxAction: Sendable {}
/// Where actions can be sent: a ``FluxDispatcher``, or what takes its place to queue, log or forward them first.
///
/// It is all that a ``FluxActionCreator`` needs.
///
/// ```swift
/// struct Queued: FluxDispatching {
///     let queue = DispatchQueue(label: "actions")
///     let dispatcher: FluxDispatcher
///
///     func dispatch<Action: FluxAction>(action: Action) -> Int {
///         queue.async { dispatcher.dispatch(action: action) }
///         return 0
///     }
/// }
/// ```
///
/// Thread safety: it is called from any thread, from many at once; what it promises about order is up to it.
nonisolated public protocol FluxDispatching: Sendable {
    /// Takes an action to where it is to be applied.
    ///
    /// - Parameter action: The change to make.
    /// - Returns: How many changes the stores have announced by now; 0 where that is not known yet.
    @discardableResult func dispatch<Action: FluxAction>(action: Action) -> Int
}
