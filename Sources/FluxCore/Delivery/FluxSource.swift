import Dispatch

/// A state that can be read and watched: a store, a view of stores, or a source of your own.
///
/// ```swift
/// struct Badge { let cart: any FluxSource<Cart> }  // needs a cart, and not the store that holds it
/// ```
///
/// Every other way to watch is built on these requirements, once for all sources.
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters.
nonisolated public protocol FluxSource<State>: Sendable {
    /// The type of the state.
    associatedtype State: Sendable

    /// The state at this moment.
    var state: State { get }

    /// A number that differs after each change that may affect the state, announced or not.
    var stamp: UInt64 { get }

    /// The stores that the state depends on; a store may occur more than once.
    var stores: [FluxStoreInfo] { get }

    /// Reads the values that the state depends on, while the dispatchers of the stores apply no action.
    ///
    /// It may read the states of stores, and reads other sources by their `capture(in:)`. See
    /// ``FluxDispatcher/paused(_:_:)``.
    ///
    /// - Parameter cut: The readings of stores already taken for this cut.
    /// - Returns: A closure that computes the state; to be called once no lock is held.
    func capture(in cut: FluxCut) -> @Sendable () -> State

    /// Calls a closure at each change that may affect the state, announced or not, without reading the state.
    ///
    /// - Parameter changed: Called at each change while a lock is held; it must be quick and pure. It returns the
    ///   object to settle once the lock is free, if any. That object must only schedule work, because it is settled
    ///   before the subscriptions of other stores (C8).
    /// - Returns: The token; the calls end when it is released.
    func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription

    /// Calls a handler with the states that are announced from now on.
    ///
    /// - Parameters:
    ///   - delivery: What to deliver when changes come faster than the handler takes them.
    ///   - queue: The queue to call the handler on; nil for the source's own serial queue.
    ///   - startingWithCurrent: Whether to deliver the current state first, atomically with the start (C5).
    ///   - ended: Called after the last state, once no other can come; nil if not needed.
    ///   - handler: Receives the state as the change left it.
    /// - Returns: The token of the subscription. Keep it: the subscription ends when it is released.
    func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription

    /// Waits until every change made before the call is delivered to every subscription, or the task is cancelled.
    ///
    /// If the source is neither a store nor a view, this does not wait for subscriptions to a part or with a bound.
    /// These receive each change through an internal subscription and deliver it from there.
    func flush() async
}

/// The states that one reading of a view takes together, as if at one moment: a cut (C11).
///
/// Each store is read once, however many views in between read it. Otherwise an action that is dispatched to a store
/// itself, and not through its dispatcher, could come between two readings of that store.
///
/// Thread safety: belongs to the thread that takes the cut.
nonisolated public final class FluxCut {
    @usableFromInline var readings: [ObjectIdentifier: Any] = [:]
    /// Whether a store may be read more than once in the cut; if not, the cut keeps no readings.
    public let isShared: Bool

    /// Creates a cut without readings.
    ///
    /// - Parameter isShared: Whether a store may be read more than once in the cut.
    public init(isShared: Bool = true) { self.isShared = isShared }

    /// Returns the earlier reading of an object, or reads it now.
    ///
    /// - Parameters:
    ///   - object: The object to read, such as the handle of a store; it must outlive the cut.
    ///   - read: Reads the object.
    /// - Returns: The first reading of the object.
    @inlinable public func reading<Reading>(of object: AnyObject, _ read: () -> Reading) -> Reading {
        if !isShared { return read() }
        // In two steps: where a reading is an optional, a missing entry would also cast to it.
        if let known = readings[ObjectIdentifier(object)], let known = known as? Reading { return known }
        let reading = read()
        readings[ObjectIdentifier(object)] = reading
        return reading
    }
}

nonisolated extension FluxSource {
    /// Calls a handler on the main actor with the states that are announced from now on.
    ///
    /// With ``FluxDelivery/latest`` it is called at most once for each turn of the main queue.
    ///
    /// - Parameters:
    ///   - delivery: What to deliver when changes come faster than the handler takes them; by default each change.
    ///   - main: The main queue.
    ///   - startingWithCurrent: Whether to deliver the current state first, atomically with the start (C5).
    ///   - handler: Receives the state as the change left it.
    /// - Returns: The token of the subscription. Keep it: the subscription ends when it is released.
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
    /// The handler is never called twice at once. It may dispatch, fire, subscribe and unsubscribe (C6). A slow handler
    /// delays no dispatch. It delays only the subscriptions on its own queue, as long as there is a thread for the
    /// others (C8). Changes that it has not taken yet are kept. If it is always slower than the changes, memory grows,
    /// and a large state is copied for each waiting change; ``FluxDelivery/latest`` keeps none. Give a handler that
    /// blocks or computes for long its own queue, because the stores' queues share a few threads.
    ///
    /// - Parameter handler: Receives the state as the change left it.
    /// - Returns: The token of the subscription. Keep it: the subscription ends when it is released.
    /// - Complexity: O(*q*) for *q* queues with subscriptions. The first `subscribe` during the delivery of a batch on
    ///   its queue also takes O(*m*) for the *m* subscriptions there. For a view, also O(*n*) for *n* stores below.
    @inlinable public func subscribe(_ handler: @escaping @Sendable (State) -> Void) -> FluxSubscription {
        subscribe(.every, on: nil, startingWithCurrent: false, ended: nil, handler)
    }

    /// Calls a handler with the states that are announced from now on, with a choice of delivery, queue and start.
    ///
    /// - Parameters:
    ///   - delivery: What to deliver when changes come faster than the handler takes them; by default each change.
    ///   - queue: The queue to call the handler on. By default the source's own serial queue,
    ///     which is not the main queue.
    ///   - startingWithCurrent: Whether to deliver the current state first; no change is missed or repeated between
    ///     that state and the next (C5).
    ///   - handler: Receives the state as the change left it.
    /// - Returns: The token of the subscription. Keep it: the subscription ends when it is released.
    /// - Complexity: O(*q*) for *q* queues with subscriptions. The first `subscribe` during the delivery of a batch on
    ///   its queue also takes O(*m*) for the *m* subscriptions there. For a view, also O(*n*) for *n* stores below.
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
    /// A number that grows with each change that is applied, announced or not.
    public var stamp: UInt64 { handle.work(handle, .stamp).stamp }

    /// This store alone.
    public var stores: [FluxStoreInfo] { [FluxStoreInfo(handle)] }

    /// Reads the state for a cut.
    ///
    /// - Parameter cut: The readings already taken.
    /// - Returns: A closure that returns the state.
    public func capture(in cut: FluxCut) -> @Sendable () -> State { handle.work(handle, .capture(cut)).state! }

    /// Calls a closure at every change that is applied.
    ///
    /// - Parameter changed: Called at each change while the store's lock is held; returns the object to settle once the
    ///   lock is free, if any.
    /// - Returns: The token; the calls end when it is released.
    public func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        let watcher = FluxStoreWatcher(handle, changed)
        handle.withAccess { $0.observe(watcher, settlesFirst: true) }
        // Weak: after the store has ended, a kept token keeps none of its memory.
        return FluxSubscription { [weak watcher] in
            if let watcher { FluxPureCode.after { watcher.handle.withAccess { $0.remove(watcher) } } }
        }
    }

    /// Calls a handler with the states that are announced from now on.
    ///
    /// - Parameters:
    ///   - delivery: What to deliver when changes come faster than the handler takes them.
    ///   - queue: The queue to call the handler on; nil for the store's own serial queue.
    ///   - startingWithCurrent: Whether to deliver the current state first.
    ///   - ended: Called after the last state; nil if not needed.
    ///   - handler: Receives the state as the change left it.
    /// - Returns: The token of the subscription. Keep it: the subscription ends when it is released.
    @inlinable public func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        guard let ended else { return handle.subscribe(delivery, queue, startingWithCurrent, handler) }
        // Held only by the handler, which is released after the last call.
        let end = FluxSubscription(ended)
        return handle.subscribe(delivery, queue, startingWithCurrent) { state in
            withExtendedLifetime(end) { handler(state) }
        }
    }
}

/// Observes the changes of a store, without their states.
nonisolated private final class FluxStoreWatcher<State: FluxState>: FluxStoreObserver {
    let handle: FluxStoreHandle<State>
    private let changed: @Sendable () -> (any FluxSettling)?

    init(_ handle: FluxStoreHandle<State>, _ changed: @escaping @Sendable () -> (any FluxSettling)?) {
        (self.handle, self.changed) = (handle, changed)
    }

    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? { changed() }
}
