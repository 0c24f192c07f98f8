/// Holds a state, applies actions to it one at a time, and notifies its subscriptions of every announced change.
///
/// ```swift
/// let store = FluxStore(initialState: Counter())
/// let subscription = store.subscribe { state in print(state.count) }
/// store.dispatch(action: .add(1))
/// print(store.state.count)  // 1: a dispatch has been applied when it returns (C2)
/// ```
///
/// The store lives as long as its last reference. When that is released, the store leaves its dispatcher, delivers
/// pending changes and ends its subscriptions (C10).
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters; not inside
/// `FluxState.handle(action:)`.
nonisolated public final class FluxStore<State: FluxState>: FluxSource {
    /// Gives access to the state and the lock without keeping the store alive.
    public let handle: FluxStoreHandle<State>

    /// Creates a store and attaches it to a dispatcher.
    ///
    /// - Parameters:
    ///   - initialState: The state before the first action.
    ///   - dispatcher: The dispatcher from which the store receives actions of type `State.Action`, starting with those
    ///     dispatched after this returns; the store keeps it alive. With nil, the store receives only actions
    ///     dispatched to the store itself.
    ///   - prepare: Receives the handle before the store is attached. An observer added here misses no action.
    /// - Complexity: O(1), amortised; O(*n*) if *n* stores have a lower priority.
    @inlinable public init(
        initialState: State, dispatcher: FluxDispatcher? = .shared,
        prepare: ((FluxStoreHandle<State>) -> Void)? = nil
    ) {
        // Consumed: a value kept to the end of its scope costs one more retain and release, a tenth of creating a
        // store.
        let handle = FluxStoreHandle(initialState: consume initialState)
        prepare?(handle)
        if let dispatcher { handle.attach(to: dispatcher, keeping: nil, priority: 0, "FluxStore.init") }
        self.handle = consume handle
    }

    // Pure code, which runs with a lock held, may release the store. Then the store ends after that code has returned.
    deinit { FluxPureCode.after { [handle] in handle.end() } }

    // MARK: - Reading

    /// The state after the last applied action.
    ///
    /// - Complexity: O(1); the state is copied as a value.
    @inlinable public var state: State { handle.read { $0.state } }

    /// The revision of the newest announced change; 0 before the first.
    ///
    /// It is the number of changes announced so far, unless ``FluxStoreAccess/replace(with:by:revision:)`` has set a
    /// higher one, as the load of a saved state does.
    ///
    /// - Complexity: O(1).
    @inlinable public var revision: UInt64 { handle.read { $0.revision } }

    // MARK: - Dispatching

    /// Applies an action to this store alone, bypassing its dispatcher.
    ///
    /// When it returns, ``state`` has the change (C2); subscriptions are notified afterwards, on their queues. Any
    /// number of threads may dispatch at once: no update is lost (C1), and the actions of one thread keep their order
    /// (C3). Inside `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The revision of the change; nil if `handle(action:)` had nothing to announce, or if the action was
    ///   held back: see ``FluxStoreAccess/hold(by:)``.
    /// - Complexity: That of `handle(action:)`, plus one step per queue that has subscriptions, and one per observer,
    ///   such as a subscription to a part.
    @inlinable @inline(__always) @discardableResult public func dispatch(action: State.Action) -> UInt64? {
        let thread = handle.threads.requireImpure("dispatch(action:)")
        var wakes = FluxWakes.none
        defer { wakes.settle() }
        return handle.apply(action, thread, &wakes)
    }

    // MARK: - Waiting

    /// Waits until every change applied before the call has been delivered to every subscription of the store.
    ///
    /// It does not wait for changes that a bounded delivery has dropped.
    ///
    /// It also waits for the current states requested with `startingWithCurrent`, and for observers. For a persistence,
    /// that means until the load has ended and every applied change is saved. It returns early when the task is
    /// cancelled. It keeps waiting while a handler does not return or a queue does not run.
    @inlinable public func flush() async { await handle.flush() }

    /// Waits as ``flush()`` does, but no longer than a duration.
    ///
    /// On a clock of the system, the call leaves some 700 bytes until the duration has passed, because Swift keeps a
    /// cancelled sleep.
    ///
    /// - Parameters:
    ///   - duration: The longest time to wait. A negative one stops the program.
    ///   - clock: The clock that measures it.
    /// - Returns: Whether everything was done. False also if an applied change can never be saved, if saving a change
    ///   applied during the wait has just failed, or if the time was over before an observer, such as a subscription
    ///   to a part, was asked.
    public func flush(
        within duration: Swift.Duration, clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock()
    ) async -> Bool {
        await fluxWithin(duration, on: clock) { await self.handle.flush() }
    }
}
