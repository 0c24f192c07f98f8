#if canImport(FluxCore)
    import FluxCore
#endif

/// Loads the state of a store, holds back changes until it is loaded, and writes what has changed; each store has its
/// own.
///
/// Its lock may be taken while the store's lock is held, never the other way round. Changes are noted with both locks
/// held, so they are noted in the order in which the store applied them. The coordinator and the handle of its store
/// keep each other until the store has ended. While anything is pending, the writer keeps both.
///
/// The code that runs for each action is inlinable: with 256 callers, the unspecialised code costs as much as the
/// database.
@usableFromInline
nonisolated final class FluxStorageCoordinator<State: FluxState>: FluxStoreObserver, FluxSettling {
    /// A change that is held back, and the task of the event that it came from.
    @usableFromInline typealias Held = (change: FluxChange<State>, task: FluxTask?)
    @usableFromInline typealias Machine = FluxStorageMachine<Held, State.Action, FluxLatch>

    /// A write that has begun.
    @usableFromInline
    enum Write {
        /// Actions; the first has the number after the given one.
        case actions(ContiguousArray<State.Action>, after: UInt64)
        case snapshot(FluxSnapshot<State>)
    }

    @usableFromInline let handle: FluxStoreHandle<State>
    @usableFromInline let storage: FluxStorage<State>
    @usableFromInline let lock: FluxLock<Machine>
    /// Calls ``write()`` as it is specialised in the client's module.
    @usableFromInline let writer: @Sendable (FluxStorageCoordinator) async -> Void

    /// Observes a store that no other code knows yet, and holds back its changes.
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

    /// Starts the load; the store resumes from whatever comes first, an answer or the time limit.
    @usableFromInline
    func startLoading() {
        let deadline = storage.loadTimeout.map(storage.deadline)
        _Concurrency.Task {
            do {
                restore(try await storage.load(initialState: handle.state, until: deadline))
            } catch {
                // Everything is still held back, so no write has begun whose failure could be reported at the same
                // time.
                storage.onFailure(
                    FluxPersistenceFailure(operation: .load, error: error, attempt: 1, retryAfter: nil))
                restore(FluxRecovery(after: error))
            }
        }
    }

    /// Resumes from a recovery, and applies the held changes in order.
    @usableFromInline
    func restore(_ recovery: FluxRecovery<State>) {
        let (told, finish) = handle.withAccess { access in
            if let state = recovery.state {
                // The loaded state is announced, so it gets a revision of at least 1, even if the log leads to none.
                access.replace(with: state, by: FluxRestored(), revision: recovery.revision)
            }
            let held = lock.withLock {
                $0.end(
                    recovery.restoration, number: recovery.number, snapshot: recovery.snapshot,
                    closes: recovery.isPermanent, isUncounted: recovery.state != nil && recovery.revision == 0)
            }
            access.hold(by: nil)
            for (change, task) in held { access.apply(change, pastGate: true, of: task) }
            access.letGo(of: held)
            return lock.withLock { $0.open() }
        }
        for waiter in told { waiter.open() }
        finish?()
    }

    /// Postpones the end of a store that still loads, until its held changes are applied; a task then writes them.
    @usableFromInline
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        let (isPutOff, isDue, isDone) = lock.withLock { ($0.noteRelease(finish), $0.isDue, $0.isClosed || $0.hasGone) }
        // At once, even if other code still keeps this object: a caller that has flushed the store may open its log
        // again.
        if isDone { storage.log.close() }
        // Even if a write is pending already: another thread may see the change and load before the writer has been
        // started.
        if isDue, storage.place != nil { work { await self.flush() } }
        return isPutOff
    }

    // MARK: - Waiting

    /// Waits until the load has ended or the task is cancelled; returns how the load ended.
    func opened() async -> FluxRestoration {
        await wait(for: .load)
        return lock.withLock { $0.isReady ? $0.restoration : .loading }
    }

    /// Waits until the load has ended and everything applied before is written, or never will be, or the task is
    /// cancelled.
    @usableFromInline
    func flush() async {
        await wait(for: .load)
        await wait(for: .writes)
    }

    /// Returns the error that keeps the changes applied so far unwritten, as soon as there is one; nil: they are
    /// written.
    @usableFromInline
    func failure() async -> (any Swift.Error)? {
        guard await wait(for: .load) else { return _Concurrency.CancellationError() }
        let number = lock.withLock { $0.last }
        // Waits again if the failure is already over, because of a write that did not cover all of the changes.
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

    /// Waits until a need is met; false: the task was cancelled before that.
    @inlinable @discardableResult
    func wait(for need: FluxStorageNeed) async -> Bool {
        // Most calls need no latch, which costs as much as all the rest.
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
    /// The task is detached, because it writes for all callers, not only for the one that happens to start it.
    @usableFromInline
    func settle() { work { await FluxUnwritten.run(self.storage.rank) { await self.writer(self) } } }

    /// Runs a closure in a task of its own; a load from the same place waits for pending writes meanwhile.
    private func work(_ body: @escaping @Sendable () async -> Void) {
        let place = storage.place
        let id = place.map { place in
            FluxUnwritten.shared.withLock { $0.add(storage.rank, at: place) { await self.flush() } }
        }
        _Concurrency.Task.detached {
            await body()
            if let id, let place { _ = FluxUnwritten.shared.withLock { $0.remove(id, at: place) } }
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
                // Tasks that were just notified and continue with their next action get it into the next batch.
                await _Concurrency.Task.yield()
            } catch {
                await pause(after: error)
            }
        }
    }

    /// Begins a write, and reads the state in the same atomic step.
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

    /// Reports a failure and waits until the next attempt is due; closes if no attempt can help.
    @usableFromInline
    func pause(after error: any Swift.Error) async {
        let (step, failed, informed) = lock.withLock { ($0.step, $0.fail(error), $0.settle()) }
        let delay = fluxIsPermanent(error) ? nil : storage.backoff.delay(after: failed.attempt)
        let deadline = delay.map(storage.deadline)
        let failure = FluxPersistenceFailure(operation: step, error: error, attempt: failed.attempt, retryAfter: delay)
        // A store that is opened in there is no part of this write, and may have to wait for the next attempt.
        FluxUnwritten.$scope.withValue(nil) { storage.onFailure(failure) }
        for waiter in informed { waiter.open() }
        if let deadline { return (try? await deadline()) ?? () }
        let (told, gone) = lock.withLock { $0.close(error) }
        for waiter in told { waiter.open() }
        withExtendedLifetime(gone) {}
    }
}
