#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxStore {
    // MARK: - Creating

    /// Creates a store that resumes from the state in a persistence and saves every change to it.
    ///
    /// The store exists at once. Actions that reach it before the load has ended, by any route, are held back and then
    /// applied, in order, to the loaded state. Until then `state` is the initial state and `dispatch(action:)` returns
    /// nil (C2 holds from `ready` on). The loaded state is announced as revision 1. After a timeout or a failed load,
    /// the store continues from the initial state, and a late answer changes nothing.
    ///
    /// After that, each announced change is followed by a save: one at a time, always of the newest state. A change
    /// that was not announced is saved with the next announced one. `flush()` waits for the save. A store that is
    /// released still completes its pending save, and a load from the same ``FluxPersistence/FluxPersistence/place``
    /// waits for it.
    ///
    /// - Parameters:
    ///   - initialState: The state to use if none is stored.
    ///   - dispatcher: The dispatcher whose actions the store receives; nil: only actions dispatched to the store
    ///     itself.
    ///   - persistence: Where the state is loaded from and saved to; used by this store alone.
    ///   - loadTimeout: How long to wait for the load, not negative; nil: forever.
    ///   - backoff: How long to wait before a failed save is tried again; by default 5 seconds at most.
    ///   - clock: Measures the timeout and the backoff.
    ///   - onFailure: Called for every load or save that fails, on any thread, never twice at once. After a failed
    ///     load, the store waits for this call to return before it continues. By default, failures are written to
    ///     standard error.
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

    /// Creates a store that resumes from a log and appends to it every action that is applied.
    ///
    /// The store exists at once and holds actions back as a store with a persistence does. It resumes from the snapshot
    /// in the log, with the actions after the snapshot applied again. Its state and `revision` are those after the last
    /// action that `dispatch(durably:)` acknowledged, or after a later one.
    ///
    /// Applied actions are appended in order, announced or not. Actions applied during an append go into the next one.
    /// A log that could not be read in time, or at all, is not written to: the store continues from the initial state,
    /// in memory only, and `dispatch(durably:)` throws.
    ///
    /// - Parameters:
    ///   - initialState: The state that the first action of a new log is applied to.
    ///   - dispatcher: The dispatcher whose actions the store receives; nil: only actions dispatched to the store
    ///     itself.
    ///   - log: Where the store loads from and appends to; used by this store alone.
    ///   - compactEvery: After how many actions, 1 or more, a snapshot replaces them; nothing is appended meanwhile.
    ///   - capacity: How many actions, 1 or more, may be unwritten before `dispatch(durably:)` waits.
    ///   - loadTimeout: How long to wait for the load, not negative; nil: forever.
    ///   - backoff: How long to wait before a failed write is tried again; by default 5 seconds at most.
    ///   - clock: Measures the timeout and the backoff.
    ///   - onFailure: Called for every load or write that fails, on any thread, never twice at once. After a failed
    ///     load, the store waits for this call to return before it continues. By default, failures are written to
    ///     standard error.
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

    /// Loads first and then creates the store: nothing is held back, and a failed load leaves no store behind.
    ///
    /// If the task is cancelled, this throws at once. The load may continue, but its result is ignored.
    ///
    /// - Parameters:
    ///   - persistence: Where the state is loaded from and saved to; used by this store alone.
    ///   - initialState: The state to use if none is stored.
    ///   - dispatcher: The dispatcher whose actions the store receives once it exists; nil: only actions dispatched to
    ///     the store itself.
    ///   - backoff: How long to wait before a failed save is tried again; by default 5 seconds at most.
    ///   - clock: Measures the backoff.
    ///   - onFailure: Called for every save that fails, on any thread, never twice at once; by default, failures are
    ///     written to standard error.
    /// - Returns: A store with the stored state, at revision 1, or with the initial state if none is stored.
    /// - Throws: The error of the load, or `CancellationError`.
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

    /// Reads the log first and then creates the store: nothing is held back, and a failed load leaves no store behind.
    ///
    /// If the task is cancelled, this throws at once. The load may continue, but its result is ignored.
    ///
    /// - Parameters:
    ///   - log: Where the store loads from and appends to; used by this store alone.
    ///   - initialState: The state that the first action of a new log is applied to.
    ///   - dispatcher: The dispatcher whose actions the store receives once it exists; nil: only actions dispatched to
    ///     the store itself.
    ///   - compactEvery: After how many actions, 1 or more, a snapshot replaces them; nothing is appended meanwhile.
    ///   - capacity: How many actions, 1 or more, may be unwritten before `dispatch(durably:)` waits.
    ///   - backoff: How long to wait before a failed write is tried again; by default 5 seconds at most.
    ///   - clock: Measures the backoff.
    ///   - onFailure: Called for every write that fails, on any thread, never twice at once; by default, failures are
    ///     written to standard error.
    /// - Returns: A store with the state and the revision after the last action in the log.
    /// - Throws: The error of the load; ``FluxLogGap``, or another error for contents that no store can have written;
    ///   or `CancellationError`.
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

    /// Creates a store that resumes from a recovery or, without one, starts to load.
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
    /// This waits for the load, and for room if too many actions are unwritten. Then it applies the action as
    /// `dispatch(action:)` does, and waits for the append or the snapshot that covers the action. Many callers share
    /// one append. A failed write is tried again while the call keeps waiting; cancel the task to stop waiting. If
    /// trying again cannot help, the call throws.
    ///
    /// The action bypasses middleware, because middleware may postpone an action or send several, while this
    /// acknowledges a single one. It also bypasses `FluxStoreAccess.hold(by:)`, because an action that is held back
    /// cannot be acknowledged.
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The revision of the change; nil if `handle(action:)` had nothing to announce.
    /// - Throws: ``FluxDurabilityError``. If the task was cancelled, it says whether the action was applied. Otherwise
    ///   the log could not be read or accepts no more writes, and the action was not applied; or the log failed
    ///   permanently after the action was applied.
    @inlinable @discardableResult
    public func dispatch(durably action: State.Action) async throws(FluxDurabilityError) -> UInt64? {
        guard let coordinator = handle.featureIfAny(FluxStorageCoordinator<State>.self), coordinator.storage.isLog
        else {
            Swift.fatalError(
                """
                FluxCore: dispatch(durably:) was used on a store without a log. Create the store with \
                FluxStore(initialState:log:), or use dispatch(action:) and then flush().
                """)
        }
        return try await coordinator.dispatch(durably: action)
    }

    /// Catches a call of `dispatch(action:)` without its label, which the compiler would otherwise correct to
    /// `durably:`.
    ///
    /// - Parameter action: The change to make.
    @available(*, unavailable, renamed: "dispatch(action:)")
    public func dispatch(_ action: State.Action) { fatalError("FluxCore: use dispatch(action:).") }

    // MARK: - Waiting for the load

    /// How the load ended, or why nothing is saved any more.
    ///
    /// Waits until the load has ended and everything dispatched before that has been applied. The value is `loading`
    /// only if the waiting task was cancelled first. For a store that has nothing to load from, it is `empty` at once.
    public var ready: FluxRestoration {
        get async {
            await handle.featureIfAny(FluxStorageCoordinator<State>.self)?.opened() ?? .empty
        }
    }
}
