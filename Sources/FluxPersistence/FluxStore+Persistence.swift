#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxStore {
    // MARK: - Creating

    /// Makes a store that goes on from what a persistence has, and saves every change to it.
    ///
    /// It exists at once. Actions that reach it before the load has ended, by any way, are held back and then applied in
    /// their order to what was loaded: until then `state` is the initial state, and `dispatch(action:)` returns nil
    /// (C2 holds from `ready` on). What was loaded is announced as revision 1. After a timeout or a failed load the
    /// store goes on from the initial state, and an answer that comes late changes nothing.
    ///
    /// After that, a change is followed by a save: one at a time, always of the newest state. A change that was not
    /// announced is saved with the next that is. `flush()` waits for the save, and a store that is let go still does
    /// it: who loads from the same ``FluxPersistence/FluxPersistence/place`` waits for that.
    ///
    /// - Parameters:
    ///   - initialState: The state if none is stored.
    ///   - dispatcher: The dispatcher whose actions it receives; nil: only what is dispatched to the store itself.
    ///   - persistence: Where to load from and to save to; used by this store alone.
    ///   - loadTimeout: How long to wait for the load, not negative; nil: for good.
    ///   - backoff: How long to wait before a save that failed is tried again; by default 5 seconds at most.
    ///   - clock: What measures the timeout and the backoff.
    ///   - onFailure: Told of every load or save that fails, on any thread and not on two at once; of a load before the
    ///     store goes on, which waits for this to return. By default it goes to standard error.
    @inlinable
    public convenience init(
        initialState: State,
        dispatcher: FluxDispatcher? = .shared,
        persistence: any FluxPersistence<State>,
        loadTimeout: Swift.Duration? = nil,
        backoff: FluxBackoff = .exponential(.milliseconds(100), max: .seconds(5)),
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (FluxPersistenceFailure) -> Void)? = nil
    ) {
        let storage = FluxStorage<State>(
            FluxStateOnlyLog(persistence), loadTimeout: loadTimeout, backoff: backoff, clock: clock,
            onFailure: onFailure)
        self.init(initialState, dispatcher, storage)
    }

    /// Makes a store that goes on from a log, and appends every action it applies to it.
    ///
    /// It exists at once and holds actions back as a store with a persistence does. What it goes on from is the snapshot
    /// of the log with the actions after it, applied again: the state and its `revision` are those after the last
    /// action that was acknowledged by `dispatch(durably:)`, or after a later one.
    ///
    /// What is applied is appended in order, announced or not; what comes while an append is under way goes into the
    /// next one. A log that could not be read in time, or at all, is not written to: the store goes on from the initial
    /// state, in memory only, and `dispatch(durably:)` throws.
    ///
    /// - Parameters:
    ///   - initialState: What the first action of a new log is applied to.
    ///   - dispatcher: The dispatcher whose actions it receives; nil: only what is dispatched to the store itself.
    ///   - log: Where to load from and to append to; used by this store alone.
    ///   - compactEvery: After how many actions, 1 or more, a snapshot takes their place; nothing is appended meanwhile.
    ///   - capacity: How many actions, 1 or more, may be unwritten before `dispatch(durably:)` waits.
    ///   - loadTimeout: How long to wait for the load, not negative; nil: for good.
    ///   - backoff: How long to wait before a write that failed is tried again; by default 5 seconds at most.
    ///   - clock: What measures the timeout and the backoff.
    ///   - onFailure: Told of everything that fails, on any thread and not on two at once; of a load before the store
    ///     goes on, which waits for this to return. By default it goes to standard error.
    @inlinable
    public convenience init(
        initialState: State,
        dispatcher: FluxDispatcher? = .shared,
        log: any FluxLog<State>,
        compactEvery: Int = 10_000,
        capacity: Int = 4_096,
        loadTimeout: Swift.Duration? = nil,
        backoff: FluxBackoff = .exponential(.milliseconds(100), max: .seconds(5)),
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (FluxPersistenceFailure) -> Void)? = nil
    ) {
        let storage = FluxStorage(
            log, capacity: capacity, compactEvery: compactEvery, loadTimeout: loadTimeout, backoff: backoff,
            clock: clock, onFailure: onFailure)
        self.init(initialState, dispatcher, storage)
    }

    /// Loads first and makes the store then, so that nothing is held back and a load that fails leaves no store behind.
    ///
    /// Where the task is cancelled it ends at once, though the load may go on: what that still finds counts for nothing.
    ///
    /// - Parameters:
    ///   - persistence: Where to load from and to save to; used by this store alone.
    ///   - initialState: The state if none is stored.
    ///   - dispatcher: The dispatcher whose actions it receives from then on; nil: only what is dispatched to it itself.
    ///   - backoff: How long to wait before a save that failed is tried again; by default 5 seconds at most.
    ///   - clock: What measures the backoff.
    ///   - onFailure: Told of every save that fails; by default it goes to standard error.
    /// - Returns: A store with the stored state, at revision 1, or with the initial one.
    /// - Throws: What the load throws, or `CancellationError`.
    @inlinable
    public static func restored(
        from persistence: any FluxPersistence<State>,
        initialState: State,
        dispatcher: FluxDispatcher? = .shared,
        backoff: FluxBackoff = .exponential(.milliseconds(100), max: .seconds(5)),
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (FluxPersistenceFailure) -> Void)? = nil
    ) async throws -> FluxStore {
        let storage = FluxStorage<State>(
            FluxStateOnlyLog(persistence), backoff: backoff, clock: clock, onFailure: onFailure)
        return FluxStore(initialState, dispatcher, storage, try await storage.load(initialState: initialState))
    }

    /// Reads the log first and makes the store then, so that nothing is held back and a load that fails leaves no store.
    ///
    /// Where the task is cancelled it ends at once, though the load may go on: what that still finds counts for nothing.
    ///
    /// - Parameters:
    ///   - log: Where to load from and to append to; used by this store alone.
    ///   - initialState: What the first action of a new log is applied to.
    ///   - dispatcher: The dispatcher whose actions it receives from then on; nil: only what is dispatched to it itself.
    ///   - compactEvery: After how many actions, 1 or more, a snapshot takes their place; nothing is appended meanwhile.
    ///   - capacity: How many actions, 1 or more, may be unwritten before `dispatch(durably:)` waits.
    ///   - backoff: How long to wait before a write that failed is tried again; by default 5 seconds at most.
    ///   - clock: What measures the backoff.
    ///   - onFailure: Told of every write that fails; by default it goes to standard error.
    /// - Returns: A store with the state and the revision after the last action in the log.
    /// - Throws: What the load throws, ``FluxLogGap`` or another error that says why no store has written this, or
    ///   `CancellationError`.
    @inlinable
    public static func restored(
        from log: any FluxLog<State>,
        initialState: State,
        dispatcher: FluxDispatcher? = .shared,
        compactEvery: Int = 10_000,
        capacity: Int = 4_096,
        backoff: FluxBackoff = .exponential(.milliseconds(100), max: .seconds(5)),
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (FluxPersistenceFailure) -> Void)? = nil
    ) async throws -> FluxStore {
        let storage = FluxStorage(
            log, capacity: capacity, compactEvery: compactEvery, backoff: backoff, clock: clock, onFailure: onFailure)
        return FluxStore(initialState, dispatcher, storage, try await storage.load(initialState: initialState))
    }

    /// Goes on from what was loaded, or from what will be.
    @inlinable
    convenience init(
        _ initialState: State, _ dispatcher: FluxDispatcher?, _ storage: FluxStorage<State>,
        _ recovery: FluxRecovery<State>? = nil
    ) {
        self.init(initialState: initialState, dispatcher: dispatcher) { handle in
            let coordinator = FluxStorageCoordinator(handle, storage)
            if let recovery { coordinator.restore(recovery) } else { coordinator.startLoading() }
        }
    }

    // MARK: - Using a log

    /// Applies an action to this store alone, and returns when it is in the log on disk.
    ///
    /// It waits for the load, and for room where too many actions are unwritten; then the action is applied as by
    /// `dispatch(action:)`, and it waits for the append or the snapshot that covers the action. Many callers share one
    /// append. A write that fails is tried again, and this goes on waiting: end that by cancelling the task. It throws where
    /// that cannot help.
    ///
    /// It passes no middleware: that may postpone an action, or send several, and one alone is acknowledged here. Nor does one who
    /// holds changes back decide on it, as what is held back cannot be acknowledged.
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The revision of the change; nil if `handle(action:)` had nothing to announce.
    /// - Throws: Where the task was cancelled, whether the action was applied; and that the log could not be read, or takes
    ///   nothing any more.
    @inlinable @discardableResult
    public func dispatch(durably action: State.Action) async throws(FluxDurabilityError) -> UInt64? {
        guard let coordinator = handle.featureIfAny(FluxStorageCoordinator<State>.self), coordinator.storage.isLog
        else {
            Swift.fatalError(
                """
                FluxCore: dispatch(durably:) was used on a store without a log. Make the store with \
                FluxStore(initialState:log:), or use dispatch(action:) and then flush().
                """)
        }
        return try await coordinator.dispatch(durably: action)
    }

    /// Tells who forgets the label of `dispatch(action:)` about that, where the compiler would put `durably:` in its place.
    ///
    /// - Parameter action: The change to make.
    @available(*, unavailable, renamed: "dispatch(action:)")
    public func dispatch(_ action: State.Action) { fatalError("FluxCore: use dispatch(action:).") }

    // MARK: - Waiting for the load

    /// How the load has ended, once it has, or why nothing is saved any more.
    ///
    /// At once, and empty, for a store that has nothing to load from.
    ///
    /// Everything that was dispatched before has been applied then. It is `loading` only where the task that waits was
    /// cancelled first.
    public var ready: FluxRestoration {
        get async {
            await handle.featureIfAny(FluxStorageCoordinator<State>.self)?.opened() ?? .empty
        }
    }
}
