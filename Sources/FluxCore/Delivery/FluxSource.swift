import Dispatch

/// A state that can be read and watched: a store, a view of stores, or what a module of yours makes of them.
///
/// ```swift
/// struct Badge { let cart: any FluxSource<Cart> }  // needs to know a cart, and not whose store it is in
/// ```
///
/// Every other way to watch is built on these, once for all of them.
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters.
nonisolated public protocol FluxSource<State>: Sendable {
    /// What is read and watched.
    associatedtype State: Sendable

    /// The state at this moment.
    var state: State { get }

    /// Grows with each change that may change the state, announced or not.
    var stamp: UInt64 { get }

    /// The stores that the state follows from; one may be among them more than once.
    var stores: [FluxStoreInfo] { get }

    /// Takes what the state follows from, while no action is under way in the dispatchers of the stores.
    ///
    /// It may read the states of stores, and asks other sources by their `capture(in:)`: see ``FluxDispatcher/paused(_:_:)``.
    ///
    /// - Parameter cut: What was read of stores before, for this moment.
    /// - Returns: Computes the state; to be called once no lock is held.
    func capture(in cut: FluxCut) -> @Sendable () -> State

    /// Tells of changes that may change the state, announced or not, without reading it.
    ///
    /// - Parameter changed: Called under a lock at each change: quick, and pure. Returns whom to settle once the lock is free: one that
    ///   only schedules work, for it comes before the subscriptions of other stores (C8).
    /// - Returns: The token, which ends it when it goes.
    func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription

    /// Calls a handler with the states that are announced from now on.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken.
    ///   - queue: Where to call the handler; nil: on a serial queue of the source's own.
    ///   - startingWithCurrent: Whether to be called with the current state first, in one step with the start (C5).
    ///   - ended: Called after the last state, once no other can come; nil where nobody asks.
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription

    /// Waits until every change made before the call has been handed to every subscription, or the task is cancelled.
    ///
    /// What watches a part, or has a bound, of a source that is neither a store nor a view, takes each change by a subscription of its
    /// own and delivers it from there: such are not waited for.
    func flush() async
}

/// What was read for one cut through sources: each store once, however many views in between read it (C11).
///
/// What is dispatched to a store itself, past its dispatcher, might otherwise come between two readings.
///
/// Thread safety: belongs to the thread that takes the cut.
nonisolated public final class FluxCut {
    @usableFromInline var readings: [ObjectIdentifier: Any] = [:]
    /// Whether a store may be read more than once in it: without, it keeps no readings.
    public let isShared: Bool

    /// Makes a cut in which nothing was read.
    ///
    /// - Parameter isShared: Whether a store may be read more than once in it.
    public init(isShared: Bool = true) { self.isShared = isShared }

    /// What was read of an object before, or is now.
    ///
    /// - Parameters:
    ///   - object: What is read, such as the handle of a store; it outlives the cut.
    ///   - read: Reads it.
    /// - Returns: What was read first.
    @inlinable public func reading<Reading>(of object: AnyObject, _ read: () -> Reading) -> Reading {
        if !isShared { return read() }
        // In two steps: nothing at all casts to a reading that is an optional.
        if let known = readings[ObjectIdentifier(object)], let known = known as? Reading { return known }
        let reading = read()
        readings[ObjectIdentifier(object)] = reading
        return reading
    }
}

nonisolated extension FluxSource {
    /// Calls a handler on the main actor with the states that are announced from now on.
    ///
    /// With ``FluxDelivery/latest`` it is called once for each turn of the main queue at most.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribe(
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (State) -> Void
    ) -> FluxSubscription {
        subscribe(
            delivery, on: .main, startingWithCurrent: startingWithCurrent, ended: nil, main.bind(handler))
    }

    /// Calls a handler with the states that are announced from now on: each exactly once and in order (C5).
    ///
    /// The handler is never called twice at once. A slow one delays no dispatch, and of the subscriptions only those on its own queue, as
    /// long as there is a thread for the others (C8). It may dispatch, fire, subscribe and unsubscribe (C6). What it has not taken yet is
    /// kept, so one that is always slower than the changes makes memory grow, and a large state is copied for each change that waits:
    /// ``FluxDelivery/latest`` keeps none. One that blocks or computes for long is best given a queue of its own: the stores' queues
    /// share a few threads.
    ///
    /// - Parameter handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*q*) for *q* queues that are subscribed on.
    @inlinable public func subscribe(_ handler: @escaping @Sendable (State) -> Void) -> FluxSubscription {
        subscribe(.every, on: nil, startingWithCurrent: false, ended: nil, handler)
    }

    /// Calls a handler with the states that are announced from now on, as one asks for.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler. By default a serial queue of the source's own, which is none of the main thread's.
    ///   - startingWithCurrent: True to be called with the current state first; no change is missed or repeated between
    ///     that state and the next (C5).
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*q*) for *q* queues that are subscribed on.
    @inlinable @_disfavoredOverload public func subscribe(
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        subscribe(
            delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: nil, handler)
    }
}

/// A store as a source.
nonisolated extension FluxStore {
    /// Grows with each change that was applied, announced or not.
    public var stamp: UInt64 { handle.work(handle, .stamp).stamp }

    /// Itself.
    public var stores: [FluxStoreInfo] { [FluxStoreInfo(handle)] }

    /// Reads the state for a cut.
    ///
    /// - Parameter cut: What was read before.
    /// - Returns: Hands out the state.
    public func capture(in cut: FluxCut) -> @Sendable () -> State { handle.work(handle, .capture(cut)).state! }

    /// Tells of every change that is applied.
    ///
    /// - Parameter changed: Called under the lock of the store at each change; returns whom to settle once that is free.
    /// - Returns: The token, which ends it when it goes.
    public func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        let watcher = FluxStoreWatcher(handle, changed)
        handle.withAccess { $0.observe(watcher, settlesFirst: true) }
        // Weak: a token that is kept keeps nothing of a store that has ended.
        return FluxSubscription { [weak watcher] in
            if let watcher { FluxPureCode.after { watcher.handle.withAccess { $0.remove(watcher) } } }
        }
    }

    /// Calls a handler with the states that are announced from now on.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken.
    ///   - queue: Where to call the handler; nil: on the store's own serial queue.
    ///   - startingWithCurrent: Whether to be called with the current state first.
    ///   - ended: Called after the last state; nil where nobody asks.
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable public func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        guard let ended else { return handle.subscribe(delivery, queue, startingWithCurrent, handler) }
        // Held by the handler alone, which is let go of after the last call.
        let end = FluxSubscription(ended)
        return handle.subscribe(delivery, queue, startingWithCurrent) { state in
            withExtendedLifetime(end) { handler(state) }
        }
    }
}

/// Watches a store for whoever needs no state.
nonisolated private final class FluxStoreWatcher<State: FluxState>: FluxStoreObserver {
    let handle: FluxStoreHandle<State>
    private let changed: @Sendable () -> (any FluxSettling)?

    init(_ handle: FluxStoreHandle<State>, _ changed: @escaping @Sendable () -> (any FluxSettling)?) {
        (self.handle, self.changed) = (handle, changed)
    }

    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? { changed() }
}
