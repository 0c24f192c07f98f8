/// Holds a state, applies actions to it one at a time, and tells its subscriptions of every announced change.
///
/// ```swift
/// let store = FluxStore(initialState: Counter())
/// let subscription = store.subscribe { state in print(state.count) }
/// store.dispatch(action: .add(1))
/// print(store.state.count)  // 1: a dispatch has been applied when it returns (C2)
/// ```
///
/// The reference is the store: when the last one goes, the store leaves its dispatcher, delivers what is due and ends
/// its subscriptions (C10).
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters; not inside
/// `FluxState.handle(action:)`.
nonisolated public final class FluxStore<State: FluxState>: FluxSource {
    /// Reaches the state and the lock without keeping the store.
    public let handle: FluxStoreHandle<State>

    /// Makes a store and attaches it to a dispatcher.
    ///
    /// - Parameters:
    ///   - initialState: The state before the first action.
    ///   - dispatcher: The dispatcher whose actions of type `State.Action` the store receives, those that are dispatched
    ///     after this returns. With nil it receives only what is dispatched to the store itself.
    ///   - prepare: Gets the handle before the store is attached: what is added there misses no action.
    /// - Complexity: O(1), amortised.
    @inlinable public init(
        initialState: State, dispatcher: FluxDispatcher? = .shared,
        prepare: ((FluxStoreHandle<State>) -> Void)? = nil
    ) {
        // What is kept to the end of its scope is counted once more and once less: a tenth of what a store takes to make.
        let handle = FluxStoreHandle(initialState: consume initialState)
        prepare?(handle)
        if let dispatcher { handle.attach(to: dispatcher, keeping: nil, priority: 0, "FluxStore.init") }
        self.handle = consume handle
    }

    // Let go of by pure code, and so with a lock held, it ends once that has returned.
    deinit { FluxPureCode.after { [handle] in handle.end() } }

    // MARK: - Reading

    /// The state after the last action that was applied.
    ///
    /// - Complexity: O(1); the state is copied as a value.
    @inlinable public var state: State { handle.read { $0.state } }

    /// The number of changes announced so far: the revision of the newest one, 0 before the first.
    ///
    /// - Complexity: O(1).
    @inlinable public var revision: UInt64 { handle.read { $0.revision } }

    // MARK: - Dispatching

    /// Applies an action to this store alone, past its dispatcher.
    ///
    /// When it returns, ``state`` has the change (C2); subscriptions are told on their queues, soon after. Any number of
    /// threads may dispatch at once: no update is lost (C1), and those of one thread keep their order (C3). Inside
    /// `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The revision of the change; nil if `handle(action:)` had nothing to announce.
    /// - Complexity: That of `handle(action:)`, and one step per queue that is subscribed on.
    @inlinable @inline(__always) @discardableResult public func dispatch(action: State.Action) -> UInt64? {
        let thread = handle.threads.requireImpure("dispatch(action:)")
        var wakes = FluxWakes.none
        defer { wakes.settle() }
        return handle.apply(action, thread, &wakes)
    }

    // MARK: - Waiting

    /// Waits until every change applied before the call has been handed to every subscription of the store.
    ///
    /// One that a delivery with a bound has dropped is not waited for.
    ///
    /// It also waits for the current states that were asked for with `startingWithCurrent`, and for those who look on, such as a
    /// persistence: for the end of the load, and until all that was applied is saved. It returns early when the
    /// task is cancelled. A handler that never returns, or a queue that never runs, keeps it waiting.
    @inlinable public func flush() async { await handle.flush() }

    /// Waits as ``flush()`` does, for so long at most.
    ///
    /// - Parameters:
    ///   - duration: How long.
    ///   - clock: What it is measured with.
    /// - Returns: Whether all of it was done; false also where something that was applied can never be saved, or where a change that
    ///   came meanwhile has just failed to be.
    public func flush(
        within duration: Swift.Duration, clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock()
    ) async -> Bool {
        await fluxWithin(duration, on: clock) { await self.handle.flush() }
    }
}
