#if canImport(FluxCore)
    import FluxCore
#endif

/// Loads the state of a store, holds back what comes meanwhile, and writes what has changed; one for each store.
///
/// Its lock is taken inside that of the store, never the other way round, so that the order of what it notes is the one
/// in which the store applied it. It and the handle of its store keep each other until the store has ended; while anything
/// is due the writer keeps both.
///
/// What runs for each action is inlinable: with 256 callers the unspecialised code costs as much as the database.
@usableFromInline
nonisolated final class FluxStorageCoordinator<State: FluxState>: FluxStoreObserver, FluxStoreGate, FluxSettling {
    @usableFromInline typealias Step = FluxPersistenceFailure.Operation

    @usableFromInline
    struct Machine {
        @usableFromInline var buffer = FluxLoadBuffer<FluxChange<State>, FluxLatch>()
        @usableFromInline var writes: FluxWriteQueue<State.Action, FluxLatch>
    }

    @usableFromInline let handle: FluxStoreHandle<State>
    @usableFromInline let storage: FluxStorage<State>
    private let options: FluxStorageOptions
    @usableFromInline let lock: FluxLock<Machine>
    /// Calls ``write()`` as the client's module has specialised it.
    private let writer: @Sendable (FluxStorageCoordinator) async -> Void

    /// Looks on at a store that nobody knows yet, and holds back what it is to apply.
    @inlinable
    convenience init(
        _ handle: FluxStoreHandle<State>, _ storage: FluxStorage<State>, _ options: FluxStorageOptions
    ) {
        self.init(handle, storage, options) { await $0.write() }
        handle.withAccess { access in
            access.observe(self)
            access.hold(by: self)
        }
    }

    @usableFromInline
    init(
        _ handle: FluxStoreHandle<State>, _ storage: FluxStorage<State>, _ options: FluxStorageOptions,
        writer: @escaping @Sendable (FluxStorageCoordinator) async -> Void
    ) {
        (self.handle, self.storage, self.options, self.writer) = (handle, storage, options, writer)
        let writes = FluxWriteQueue<State.Action, FluxLatch>(
            isLog: storage.isLog, capacity: options.capacity, compactEvery: UInt64(options.compactEvery))
        lock = FluxLock(Machine(writes: writes))
        _ = handle.feature(FluxStorageCoordinator.self) { self }
    }

    // MARK: - Loading

    /// How the load has ended.
    var restoration: FluxRestoration { underBothLocks { $0.buffer.restoration } }

    @usableFromInline
    func admit(_ change: FluxChange<State>) -> Bool {
        lock.withLock { !$0.buffer.keep(change) }
    }

    /// Loads, and goes on from what comes first, an answer or the end of the time for it.
    @usableFromInline
    func startLoading() {
        let load = FluxLoad(storage, initialState: handle.state) { [self] answer in
            switch answer {
            case .success(let recovery): restore(recovery)
            case .failure(let error):
                // While all is held back still: nobody writes yet, whose failure could be reported meanwhile.
                options.onFailure(
                    FluxPersistenceFailure(operation: .load, error: error, attempt: 1, retryAfter: nil))
                restore(FluxRecovery(error is FluxLoadTimeout ? .timedOut : .failed(error)))
            }
        }
        guard let timeout = options.loadTimeout else { return }
        load.giveUp(after: options.deadline(in: timeout), FluxLoadTimeout(limit: timeout))
    }

    /// Goes on from what was loaded, and applies what was held back in the meantime, in order.
    @usableFromInline
    func restore(_ recovery: FluxRecovery<State>) {
        let release = handle.withAccess { access in
            if let state = recovery.state {
                access.replace(with: state, by: FluxRestored(), revision: recovery.revision)
            }
            let release = lock.withLock { machine in
                if let number = recovery.number {
                    machine.writes.resume(at: number, snapshot: recovery.snapshot)
                } else if storage.isLog {
                    machine.writes.close()
                }
                return machine.buffer.end(recovery.restoration)
            }
            access.hold(by: nil)
            for change in release.changes { access.apply(change, pastGate: true) }
            return release
        }
        for waiter in release.waiters { waiter.leave() }
        release.finish?()
    }

    // MARK: - Waiting

    /// Waits until the load has ended, or the task is cancelled.
    @usableFromInline
    func opened() async {
        await wait({ $0.buffer.wait($1) }, withdrawing: { $0.buffer.withdraw($1) })
    }

    /// Waits until the load has ended and all that was applied before is written, or the task is cancelled.
    @usableFromInline
    func flush() async {
        await opened()
        await wait({ $0.writes.wait($1) }, withdrawing: { $0.writes.withdraw($1) })
    }

    private func wait(
        _ join: (inout Machine, FluxLatch) -> UInt64?, withdrawing withdraw: (inout Machine, UInt64) -> Void
    ) async {
        await FluxLatch.wait { latch in
            underBothLocks { machine in
                let id = join(&machine, latch)
                if id != nil { latch.enter() }
                return id
            }
        } withdrawing: { id in
            lock.withLock { withdraw(&$0, id) }
        }
    }

    /// Whoever asks how far the store is has its lock too: the load has ended once all that was held back is applied.
    private func underBothLocks<Result>(_ body: (inout Machine) -> Result) -> Result {
        handle.withAccess { _ in lock.withLock { body(&$0) } }
    }

    /// A store that is let go while it loads still applies what it has held back; what is due then is written by a task.
    @usableFromInline
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        lock.withLock { !$0.buffer.close(finish) }
    }

    // MARK: - Writing

    /// Notes what is to be written; until the load has ended that is nothing, for the state is not known yet.
    @inlinable
    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        let startsWriter = lock.withLock { machine in
            if machine.buffer.isLoading { return false }
            switch change {
            case .action(let action):
                // A change that nobody was told of can wait to be saved with the next; a log has every action.
                return (revision != nil || machine.writes.isLog) && machine.writes.note(action)
            case .other, .replaced: return machine.writes.note(nil)
            }
        }
        return startsWriter ? self : nil
    }

    /// Starts the writer.
    ///
    /// Detached: what it writes is not for the task alone that happens to be the first.
    @usableFromInline
    func settle() {
        _Concurrency.Task.detached { [self] in await writer(self) }
    }

    @inlinable
    func write() async {
        while let (step, state, revision) = begin() {
            do {
                try await perform(step, state: state, revision: revision)
                for waiter in lock.withLock({ $0.writes.succeed() }).waiters { waiter.leave() }
                // Those who have just been told, and go on to their next action, come into this batch.
                await _Concurrency.Task.yield()
            } catch {
                await pause(after: error, step)
            }
        }
    }

    /// Begins a write; the state is read in one step with that where it is needed.
    @inlinable
    func begin() -> (Step, State?, revision: UInt64)? {
        let (needsState, step) = lock.withLock { machine in
            machine.writes.needsState ? (true, nil) : (false, machine.writes.begin(hasState: false))
        }
        if !needsState { return step.map { ($0, nil, 0) } }
        return handle.withAccess { access in
            lock.withLock { $0.writes.begin(hasState: true) }.map { ($0, access.state, access.revision) }
        }
    }

    @inlinable
    func perform(_ step: Step, state: State?, revision: UInt64) async throws {
        let (last, actions) = lock.withLock { $0.writes.entries }
        switch (storage, step, state) {
        case (.persistence(let persistence), .save, let state?): try await persistence.save(state)
        case (.log(let log), .compact, let state?):
            try await log.compact(FluxSnapshot(state: state, number: last, revision: revision))
        case (.log(let log), .append, _):
            let first = last - UInt64(actions.count) + 1
            try await log.append(
                actions.enumerated().map { FluxLogEntry(number: first + UInt64($0), action: $1) })
        default: break
        }
    }

    /// Reports a failure, and waits until it is time for the next attempt.
    @usableFromInline
    func pause(after error: any Error, _ step: Step) async {
        let attempt = lock.withLock { $0.writes.fail() }
        let delay = options.backoff.delay(after: attempt, chance: Double.random(in: 0...1))
        let deadline = options.deadline(in: delay)
        options.onFailure(
            FluxPersistenceFailure(operation: step, error: error, attempt: attempt, retryAfter: delay))
        try? await deadline()
    }
}
