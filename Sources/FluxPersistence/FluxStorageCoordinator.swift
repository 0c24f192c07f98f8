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
nonisolated final class FluxStorageCoordinator<State: FluxState>: FluxStoreObserver, FluxSettling {
    /// What is held back, and the work whose action it is.
    @usableFromInline typealias Held = (change: FluxChange<State>, task: FluxTask?)
    @usableFromInline typealias Machine = FluxStorageMachine<Held, State.Action, FluxLatch>

    /// A write that has begun.
    @usableFromInline
    enum Write {
        /// Actions, with the numbers after one.
        case actions(ContiguousArray<State.Action>, after: UInt64)
        case snapshot(FluxSnapshot<State>)
    }

    @usableFromInline let handle: FluxStoreHandle<State>
    @usableFromInline let storage: FluxStorage<State>
    @usableFromInline let lock: FluxLock<Machine>
    /// Calls ``write()`` as the client's module has specialised it.
    @usableFromInline let writer: @Sendable (FluxStorageCoordinator) async -> Void

    /// Looks on at a store that nobody knows yet, and holds back what it is to apply.
    @inlinable
    init(_ handle: FluxStoreHandle<State>, _ storage: FluxStorage<State>) {
        (self.handle, self.storage, writer) = (handle, storage, { await $0.write() })
        lock = FluxLock(
            Machine(isLog: storage.isLog, capacity: storage.capacity, compactEvery: storage.compactEvery))
        _ = handle.feature(FluxStorageCoordinator.self) { self }
        handle.withAccess { access in
            access.observe(self, settlesFirst: true)
            access.hold { self.admit($0) }
        }
    }

    // MARK: - Loading

    @usableFromInline
    func admit(_ change: FluxChange<State>) -> Bool { lock.withLock { !$0.hold((change, FluxTask.current)) } }

    /// Loads, and goes on from what comes first, an answer or the end of the time for it.
    @usableFromInline
    func startLoading() {
        let deadline = storage.loadTimeout.map(storage.deadline)
        _Concurrency.Task {
            do {
                restore(try await storage.load(initialState: handle.state, until: deadline))
            } catch {
                // While all is held back still: nobody writes yet, whose failure could be reported meanwhile.
                storage.onFailure(
                    FluxPersistenceFailure(operation: .load, error: error, attempt: 1, retryAfter: nil))
                restore(FluxRecovery(after: error))
            }
        }
    }

    /// Goes on from what was loaded, and applies what was held back in the meantime, in order.
    @usableFromInline
    func restore(_ recovery: FluxRecovery<State>) {
        let (told, finish) = handle.withAccess { access in
            if let state = recovery.state {
                access.replace(with: state, by: FluxRestored(), revision: recovery.revision)
            }
            let held = lock.withLock {
                $0.end(
                    recovery.restoration, number: recovery.number, snapshot: recovery.snapshot,
                    closes: recovery.isPermanent, isUncounted: recovery.isUncounted)
            }
            access.hold(by: nil)
            for (change, task) in held { access.apply(change, pastGate: true, of: task) }
            access.letGo(of: held)
            return lock.withLock { $0.open() }
        }
        for waiter in told { waiter.open() }
        finish?()
    }

    /// A store that is let go while it loads still applies what it has held back; what is due then is written by a task.
    @usableFromInline
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        let (isPutOff, isDue, isDone) = lock.withLock { ($0.letGo(finish), $0.isDue, $0.isClosed || $0.hasGone) }
        // At once, whatever still holds this for a moment: who has flushed the store may open its log again.
        if isDone { storage.log.close() }
        // Even where a write is due already: whoever has seen the change may come before its thread has started that.
        if isDue, storage.place != nil { work { await self.flush() } }
        return isPutOff
    }

    // MARK: - Waiting

    /// Waits until the load has ended, or the task is cancelled; how it has ended.
    @usableFromInline
    func opened() async -> FluxRestoration {
        await wait(for: .load)
        return lock.withLock { $0.isReady ? $0.restoration : .loading }
    }

    /// Waits until the load has ended and all that was applied before is written, or never will be, or the task is cancelled.
    @usableFromInline
    func flush() async {
        await wait(for: .load)
        await wait(for: .writes)
    }

    /// What keeps the changes that were applied before from being written, as soon as that is known; nil: they are.
    @usableFromInline
    func failure() async -> (any Swift.Error)? {
        guard await wait(for: .load) else { return _Concurrency.CancellationError() }
        let number = lock.withLock { $0.last }
        // Again where the failure that it was told of is over, by a write that has not had all of them.
        while await wait(for: .attempt) {
            let (error, isDone) = lock.withLock { ($0.failure(upTo: number), $0.done >= number) }
            if error != nil || isDone { return error }
        }
        return _Concurrency.CancellationError()
    }

    /// Applies an action once there is room for it, and waits until it is written.
    @inlinable
    func dispatch(durably action: State.Action) async throws(FluxDurabilityError) -> UInt64? {
        if _Concurrency.Task.isCancelled { throw .cancelled }
        guard await wait(for: .room) else { throw .cancelled }
        if let restoration = lock.withLock({ $0.isClosed ? $0.restoration : nil }) { throw .logNotRead(restoration) }
        var (revision, number): (UInt64?, UInt64) = (nil, 0)
        let isWritten = await wait(for: .writes) { latch in
            handle.withAccess { access in
                revision = access.apply(.action(action), pastGate: true)
                return lock.withLock { machine in
                    machine.granted -= 1
                    number = machine.last
                    return machine.wait(for: .writes, latch)
                }
            }
        }
        if !isWritten { throw .unconfirmed(revision: revision) }
        let restoration = lock.withLock { $0.done < number ? $0.restoration : nil }
        if case .failed(let error) = restoration { throw .notWritten(error, revision: revision) }
        return revision
    }

    /// Waits until what is needed is there; false: the task was cancelled before that.
    @inlinable @discardableResult
    func wait(for need: FluxStorageNeed) async -> Bool {
        // Most need no latch: it costs as much as all the rest.
        if lock.withLock({ $0.grants(need, $0.last) }) { return true }
        return await wait(for: need) { latch in lock.withLock { $0.wait(for: need, latch) } }
    }

    @inlinable
    func wait(for need: FluxStorageNeed, joining join: (FluxLatch) -> UInt64?) async -> Bool {
        var isThere = true
        await FluxLatch.wait(joining: join) { id in
            isThere = !_Concurrency.Task.isCancelled || lock.withLock { !$0.withdraw(id, from: need) }
        }
        return isThere
    }

    // MARK: - Writing

    @inlinable
    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        let action: State.Action? = if case .action(let action) = change { action } else { nil }
        return lock.withLock { $0.note(action, isAnnounced: revision != nil) } ? self : nil
    }

    /// Starts the writer.
    ///
    /// Detached: what it writes is not for the task alone that happens to be the first.
    @usableFromInline
    func settle() { work { await FluxUnwritten.run(self.storage.path) { await self.writer(self) } } }

    /// Does something in a task of its own, during which who loads from the same place waits.
    private func work(_ body: @escaping @Sendable () async -> Void) {
        let place = storage.place
        let id = place.map { FluxUnwritten.enter(storage.path, at: $0) { await self.flush() } }
        _Concurrency.Task.detached {
            await body()
            if let id, let place { FluxUnwritten.leave(id, at: place) }
        }
    }

    @inlinable
    func write() async {
        while let write = begin() {
            do {
                switch write {
                case .snapshot(let snapshot): try await storage.log.current?.compact(snapshot)
                case .actions(let actions, let last):
                    try await storage.log.current?.append(
                        actions.enumerated().map { FluxLogEntry(number: last + 1 + UInt64($0), action: $1) })
                }
                let (told, gone) = lock.withLock { machine in
                    let gone = machine.succeed()
                    return (machine.settle(), gone)
                }
                for waiter in told { waiter.open() }
                withExtendedLifetime(gone) {}
                // Those who have just been told, and go on to their next action, come into this batch.
                await _Concurrency.Task.yield()
            } catch {
                await pause(after: error)
            }
        }
    }

    /// Begins a write, and takes the state in one step with that.
    @inlinable
    func begin() -> Write? {
        handle.withAccess { access in
            lock.withLock { machine in
                guard let step = machine.begin() else { return nil }
                if step == .append { return .actions(machine.batch, after: machine.done) }
                return .snapshot(
                    FluxSnapshot(state: access.state, number: machine.batchEnd, revision: access.revision))
            }
        }
    }

    /// Reports a failure, and waits until it is time for the next attempt; or closes, where none can help.
    @usableFromInline
    func pause(after error: any Swift.Error) async {
        let (step, failed, informed) = lock.withLock { ($0.step, $0.fail(error), $0.settle()) }
        let delay = fluxIsPermanent(error) ? nil : storage.backoff.delay(after: failed.attempt)
        let deadline = delay.map(storage.deadline)
        let failure = FluxPersistenceFailure(operation: step, error: error, attempt: failed.attempt, retryAfter: delay)
        // What is opened in there is no part of the write, and may have to wait for the next attempt.
        FluxUnwritten.$scope.withValue(nil) { storage.onFailure(failure) }
        for waiter in informed { waiter.open() }
        if let deadline { return (try? await deadline()) ?? () }
        let (told, gone) = lock.withLock { $0.close(error) }
        for waiter in told { waiter.open() }
        withExtendedLifetime(gone) {}
    }
}
