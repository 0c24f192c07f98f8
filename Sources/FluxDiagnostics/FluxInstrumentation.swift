#if canImport(FluxCore)
    import FluxCore
#endif

/// Looks at what happens on a dispatcher or a store: each function is told of one thing, and does nothing by default.
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
/// On a dispatcher it is told of the events of the creators that dispatch there, of what is dispatched, and of what came of
/// that in each store. On a store it is told of what that store applies, wherever it comes from.
/// While nobody looks, there is nothing to pay.
///
/// It is called on the thread that dispatches: one that blocks holds up that thread, and no subscription (C8). Hand what takes long to
/// a queue.
///
/// Thread safety: it is called on many threads at once, with no lock held but for `dispatched` of a store.
nonisolated public protocol FluxInstrumentation: Sendable {
    /// An event was fired.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - origin: What its actions will carry.
    func fired(_ event: any FluxEvent, origin: FluxOrigin)

    /// The conversion of an event has failed for good.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - error: What it failed with.
    ///   - origin: What its actions carry.
    func failed(_ event: any FluxEvent, error: any Swift.Error, origin: FluxOrigin)

    /// The conversion of an event has failed and will be tried again.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - attempt: Which attempt failed, from 1 on.
    ///   - error: What it failed with.
    ///   - origin: What its actions carry.
    func retried(_ event: any FluxEvent, attempt: Int, error: any Swift.Error, origin: FluxOrigin)

    /// An action is on its way, and has not been applied.
    ///
    /// Nothing more is told of one that middleware stops, nor, on a store, of a reaction or a part of a command that turns out to
    /// change nothing.
    ///
    /// On a dispatcher this comes before any middleware of a lower priority than `Int.max`. On a store it comes when nothing else
    /// can come between, so it is called under the lock of the store: there it must be quick, and use no store, dispatcher or
    /// creator.
    ///
    /// - Parameters:
    ///   - action: The action.
    ///   - origin: The event that it came from; nil if it was not fired.
    func dispatched(_ action: any FluxAction, origin: FluxOrigin?)

    /// A store has applied an action.
    ///
    /// - Parameters:
    ///   - action: The action.
    ///   - store: Where.
    ///   - revision: The revision that announces it; nil if there was nothing to announce.
    ///   - duration: How long that took; on a dispatcher the wait for it included.
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

/// Follows an event through its actions: all that a converter sends for one event carries the same.
///
/// Middleware that goes on later, or on another thread, keeps it.
///
/// Thread safety: a value.
nonisolated public struct FluxOrigin: Hashable, Sendable {
    /// A number that no other event of this run of the program has.
    public let id: UInt64

    /// The origin of what some work sends.
    ///
    /// - Parameter task: The work.
    @inlinable public init(_ task: FluxTask) { id = task.id }

    /// The event whose action is being dispatched on this thread; nil if there is none.
    @inlinable public static var current: FluxOrigin? { FluxTask.current.map { FluxOrigin($0) } }
}
