import Synchronization

/// A window into what happens on a dispatcher or a store: each function is told of one thing, and does nothing by default.
///
/// ```swift
/// struct Printing: FluxHooks {
///     func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
///         print(store, action, duration)
///     }
/// }
/// let window = dispatcher.watch(Printing())
/// ```
///
/// On a dispatcher it is told of the events of the creators that dispatch there, of what is dispatched, and of what came of
/// that in each store. On a store it is told of what that store applied, wherever it came from, and of its subscriptions.
/// While nobody watches, there is nothing to pay.
///
/// Thread safety: it is called on many threads at once, with no lock held; after the fact and soon, so calls that concern
/// two threads may come in either order.
nonisolated public protocol FluxHooks: Sendable {
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
    func failed(_ event: any FluxEvent, error: any Error, origin: FluxOrigin)

    /// The conversion of an event has failed and will be tried again.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - attempt: Which attempt failed, from 1 on.
    ///   - error: What it failed with.
    ///   - origin: What its actions carry.
    func retried(_ event: any FluxEvent, attempt: Int, error: any Error, origin: FluxOrigin)

    /// An action is on its way, before any middleware.
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
    ///   - duration: How long that took, the wait for the store included.
    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Swift.Duration)

    /// The subscriptions on one queue have been given changes.
    ///
    /// - Parameters:
    ///   - revision: The newest of them.
    ///   - count: How many had been waiting: the depth of the queue.
    ///   - store: Whose changes.
    ///   - delay: From the announcement of the newest to now; nil if that is more than 64 changes ago.
    func delivered(revision: UInt64, count: Int, by store: FluxStoreInfo, after delay: Swift.Duration?)

    /// A subscription that may lose changes has lost some.
    ///
    /// - Parameters:
    ///   - count: How many.
    ///   - store: Whose changes.
    func dropped(_ count: Int, by store: FluxStoreInfo)
}

nonisolated extension FluxHooks {
    /// Does nothing.
    public func fired(_ event: any FluxEvent, origin: FluxOrigin) {}

    /// Does nothing.
    public func failed(_ event: any FluxEvent, error: any Error, origin: FluxOrigin) {}

    /// Does nothing.
    public func retried(_ event: any FluxEvent, attempt: Int, error: any Error, origin: FluxOrigin) {}

    /// Does nothing.
    public func dispatched(_ action: any FluxAction, origin: FluxOrigin?) {}

    /// Does nothing.
    public func applied(
        _ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Swift.Duration
    ) {}

    /// Does nothing.
    public func delivered(revision: UInt64, count: Int, by store: FluxStoreInfo, after delay: Swift.Duration?) {}

    /// Does nothing.
    public func dropped(_ count: Int, by store: FluxStoreInfo) {}
}

/// Follows an event through its actions: all that a converter sends for one event carries the same.
///
/// Middleware that goes on later, or on another thread, keeps it.
///
/// Thread safety: a value.
nonisolated public struct FluxOrigin: Hashable, Sendable {
    /// A number that no other event of this run of the program has.
    public let id: UInt64

    init(id: UInt64) {
        self.id = id
    }

    /// The id that an event was given when it was fired; where nobody watched by then, one that no other has.
    init(known id: UInt64) {
        self.id = id == 0 ? Self.make() : id
    }

    /// The event whose action is being dispatched on this thread; nil if there is none, or nobody watched when it was fired.
    public static var current: FluxOrigin? {
        let id = FluxThreads.shared.current.pointee.origin
        return id == 0 ? nil : FluxOrigin(id: id)
    }

    private static let last = Synchronization.Atomic<UInt64>(0)

    /// Makes an id.
    static func make() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }
}
