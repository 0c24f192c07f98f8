import Dispatch

/// Where a store's state outlives the process.
@usableFromInline
nonisolated enum FluxStorage<State: FluxState>: Sendable {
    case persistence(any FluxPersistence<State>)
    case log(any FluxLog<State>)
}

/// How patient a keeper is, and whom it tells.
@usableFromInline
nonisolated struct FluxKeeping: Sendable {
    var loadTimeout: Swift.Duration?
    var backoff: FluxBackoff
    var clock: any _Concurrency.Clock<Swift.Duration>
    var onFailure: @Sendable (FluxPersistenceFailure) -> Void
}

/// Loads the state of a store and writes it; belongs to the core, which its tasks keep alive while anything is due.
///
/// Its lock is taken inside that of the store, never the other way round, so that the order of what it notes is the one
/// in which the store applied it. It does not refer to the core: that would be a cycle.
///
/// What runs for each action is inlinable: with 256 callers the unspecialised code costs as much as the database.
@usableFromInline
nonisolated final class FluxKeeper<State: FluxState>: Sendable {
    @usableFromInline typealias Core = FluxStoreCore<State>
    @usableFromInline typealias Step = FluxWriting<State.Action, FluxLatch>.Step

    @usableFromInline
    struct Machine {
        @usableFromInline var hold: FluxHold<FluxStep<State>, FluxLatch>
        @usableFromInline var writing: FluxWriting<State.Action, FluxLatch>
    }

    @usableFromInline let storage: FluxStorage<State>
    let keeping: FluxKeeping
    @usableFromInline let lock: FluxLock<Machine>

    /// - Parameters:
    ///   - storage: Where to load from and to write to.
    ///   - keeping: How.
    ///   - limits: Of the log: how many actions may be unwritten, and how many come before a snapshot.
    init(
        storage: FluxStorage<State>,
        keeping: FluxKeeping,
        limits: (capacity: Int, compactEvery: Int) = (.max, .max)
    ) {
        if let timeout = keeping.loadTimeout {
            fluxRequire(
                timeout >= .zero, "a loadTimeout cannot be negative (\(timeout)). Give nil to wait for good.")
        }
        fluxRequire(
            limits.compactEvery > 0,
            "compactEvery: \(limits.compactEvery) asks for a snapshot after less than one action. Give 1 or more.")
        fluxRequire(
            limits.capacity > 0,
            "with a capacity of \(limits.capacity) no action could be dispatched durably. Give it 1 or more.")
        self.storage = storage
        self.keeping = keeping
        var isLog = false
        if case .log = storage { isLog = true }
        let machine = Machine(
            hold: FluxHold(),
            writing: FluxWriting(
                isLog: isLog, capacity: limits.capacity, compactEvery: UInt64(limits.compactEvery)))
        lock = FluxLock(machine)
    }

    var restoration: FluxRestoration { lock.withLock { $0.hold.restoration } }

    // MARK: - Waiting

    /// Waits until the load has ended, or the task is cancelled.
    func loaded() async {
        await wait({ $0.hold.wait($1) }, withdrawing: { $0.hold.withdraw($1) })
    }

    /// Waits until all that was noted is written, or the task is cancelled.
    func flush() async {
        await wait({ $0.writing.wait($1) }, withdrawing: { $0.writing.withdraw($1) })
    }

    /// Waits for what a machine of this has to tell, if it has; one that is cancelled is withdrawn.
    private func wait(
        _ enter: (inout Machine, FluxLatch) -> UInt64?, withdrawing withdraw: (inout Machine, UInt64) -> Void
    ) async {
        let latch = FluxLatch()
        let id = lock.withLock { machine in
            let id = enter(&machine, latch)
            if id != nil { latch.enter() }
            return id
        }
        guard let id else { return }
        await latch.wait()
        lock.withLock { withdraw(&$0, id) }
    }

    // MARK: - Writing

    /// Starts the writer; it keeps the core alive until nothing is due.
    ///
    /// Detached: what it writes is not for the task alone that happens to be the first.
    @inlinable
    func startWriter(_ core: Core) {
        _Concurrency.Task.detached { await self.write(core) }
    }

    @inlinable
    func write(_ core: Core) async {
        while let (step, state, revision) = begin(core) {
            do {
                try await perform(step, state: state, revision: revision)
                for waiter in lock.withLock({ $0.writing.succeed() }).waiters { waiter.leave() }
                // Those who have just been told, and go on to their next action, come into this batch.
                await _Concurrency.Task.yield()
            } catch {
                await pause(after: error, step)
            }
        }
    }

    /// Begins a write; the state is read in one step with that where it is needed.
    @inlinable
    func begin(_ core: Core) -> (Step, State?, revision: UInt64)? {
        let (needsState, step) = lock.withLock { kept in
            kept.writing.needsState ? (true, nil) : (false, kept.writing.begin(hasState: false))
        }
        if !needsState { return step.map { ($0, nil, 0) } }
        return core.lock.withLock { machine in
            lock.withLock { $0.writing.begin(hasState: true) }.map { ($0, machine.state, machine.revision) }
        }
    }

    @inlinable
    func perform(_ step: Step, state: State?, revision: UInt64) async throws {
        let (last, actions) = lock.withLock { $0.writing.entries }
        switch (storage, step, state) {
        case (.persistence(let persistence), .save, let state?): try await persistence.save(state)
        case (.log(let log), .compact, let state?):
            try await log.compact(FluxSnapshot(state: state, number: last, revision: revision))
        case (.log(let log), .append, _):
            var entries: [FluxLogEntry<State.Action>] = []
            entries.reserveCapacity(actions.count)
            let first = last - UInt64(actions.count) + 1
            for action in actions {
                entries.append(FluxLogEntry(number: first + UInt64(entries.count), action: action))
            }
            try await log.append(entries)
        default: break
        }
    }

    /// Reports a failure, and waits until it is time for the next attempt.
    @usableFromInline
    func pause(after error: any Error, _ step: Step) async {
        let attempt = lock.withLock { $0.writing.fail() }
        let delay = keeping.backoff.delay(after: attempt, chance: Double.random(in: 0...1))
        let pause = FluxDeadline(in: delay, on: keeping.clock)
        keeping.onFailure(
            FluxPersistenceFailure(
                operation: FluxPersistenceFailure.Operation(step), error: error, attempt: attempt, retryAfter: delay))
        try? await pause.reached()
    }
}

nonisolated extension FluxPersistenceFailure.Operation {
    init<Action, Waiter>(_ step: FluxWriting<Action, Waiter>.Step) {
        switch step {
        case .save: self = .save
        case .append: self = .append
        case .compact: self = .compact
        }
    }
}
