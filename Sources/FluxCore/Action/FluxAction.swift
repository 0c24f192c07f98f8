/// A change that a state knows how to make.
///
/// Usually an enum with payloads. A ``FluxDispatcher`` delivers it to every attached store whose `State.Action` is this
/// type, or that reacts to this type. It does not visit any other store.
///
/// Thread safety: an action may cross threads on its way to the stores, so it is `Sendable`.
nonisolated public protocol FluxAction: Sendable {}
/// A destination for actions: a ``FluxDispatcher``, or a replacement that queues, logs or forwards them first.
///
/// A ``FluxActionCreator`` needs nothing else to send its actions.
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
/// Thread safety: called on any thread, on several at once. The conforming type defines which order it guarantees.
nonisolated public protocol FluxDispatching: Sendable {
    /// Sends an action to the stores that apply it.
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The number of changes that the stores have announced so far; 0 if it is not known yet.
    @discardableResult func dispatch<Action: FluxAction>(action: Action) -> Int
}
