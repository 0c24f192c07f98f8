#if canImport(FluxCore)
    import FluxCore
#endif

/// Observes what happens on a dispatcher or a store: each function is one notification, and does nothing by default.
///
/// ```swift
/// struct Printing: FluxInstrumentation {
///     func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
///         print(store, action, duration)
///     }
/// }
/// let registration = dispatcher.instrument(Printing())
/// ```
///
/// On a dispatcher, it observes the events of the creators that dispatch there, the actions that are dispatched, and
/// their results in each store. On a store, it observes the events of the creators that send there, and the actions
/// that the store applies, whatever the source, but no state that replaces another. Without instrumentation there is no
/// cost.
///
/// It is called on the thread that dispatches. If it blocks, it delays that thread, but no subscription (C8). Move long
/// work to a queue.
///
/// Thread safety: called on many threads at once, with no lock held, except for `dispatched` on a store.
nonisolated public protocol FluxInstrumentation: Sendable {
    /// Receives an event that was fired.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - origin: The origin that its actions will carry.
    func fired(_ event: any FluxEvent, origin: FluxOrigin)

    /// Receives an event whose conversion has failed and will not be retried.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - error: The error that it failed with.
    ///   - origin: The origin that its actions carry.
    func failed(_ event: any FluxEvent, error: any Swift.Error, origin: FluxOrigin)

    /// Receives an event whose conversion has failed and will be retried.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: The error that it failed with.
    ///   - origin: The origin that its actions carry.
    func retried(_ event: any FluxEvent, attempt: Int, error: any Swift.Error, origin: FluxOrigin)

    /// Receives an action that is on its way and has not been applied.
    ///
    /// `applied` does not follow if middleware stops the action. On a store, it also does not follow if a reaction or a
    /// part of a command turns out to change nothing.
    ///
    /// On a dispatcher, this is called before any middleware with a priority lower than `Int.max`. On a store, it is
    /// called when nothing can come in between any more, which means while the store's lock is held. There it must be
    /// quick, and use no store, dispatcher or creator.
    ///
    /// - Parameters:
    ///   - action: The action.
    ///   - origin: The origin of the action; nil if it came from no event.
    func dispatched(_ action: any FluxAction, origin: FluxOrigin?)

    /// Receives an action that a store has applied.
    ///
    /// - Parameters:
    ///   - action: The action.
    ///   - store: The store.
    ///   - revision: The revision that announces the change; nil if there was nothing to announce.
    ///   - duration: How long that took; on a dispatcher, this includes the wait for the store.
    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Swift.Duration)
}

nonisolated extension FluxInstrumentation {
    /// Does nothing.
    public func fired(_ event: any FluxEvent, origin: FluxOrigin) {}

    /// Does nothing.
    public func failed(_ event: any FluxEvent, error: any Swift.Error, origin: FluxOrigin) {}

    /// Does nothing.
    public func retried(_ event: any FluxEvent, attempt: Int, error: any Swift.Error, origin: FluxOrigin) {}

    /// Does nothing.
    @inlinable public func dispatched(_ action: any FluxAction, origin: FluxOrigin?) {}

    /// Does nothing.
    @inlinable public func applied(
        _ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Swift.Duration
    ) {}
}

/// Identifies an event in its actions: all actions that a converter sends for one event carry the same origin.
///
/// It is preserved when middleware continues later, or on another thread.
///
/// Thread safety: a value.
nonisolated public struct FluxOrigin: Hashable, Sendable {
    /// A number that no other event of this run of the program has.
    public let id: UInt64

    /// Creates the origin of what the work of an event sends.
    ///
    /// - Parameter task: The task of that work.
    @inlinable public init(_ task: FluxTask) { id = task.id }

    /// The origin of the action that is being dispatched on this thread; nil if there is none.
    @inlinable public static var current: FluxOrigin? { FluxTask.current.map { FluxOrigin($0) } }
}
