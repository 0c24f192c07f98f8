import Dispatch
import Synchronization

/// What the core of a store does differently because it has a keeper.
nonisolated extension FluxStoreCore {
    @inlinable var keeper: FluxKeeper<State>? {
        keeperIfAny.map { unsafeDowncast($0, to: FluxKeeper<State>.self) }
    }

    @usableFromInline var keeperIfAny: AnyObject? { extrasIfAny?.keeper }

    @usableFromInline
    func startWriterSoon() {
        guard let keeper else { return }
        DispatchQueue.global().async { keeper.startWriter(self) }
    }

    /// Whether actions are held back at the moment.
    var isLoading: Bool { keeper?.lock.withLock { $0.hold.isLoading } ?? false }

    /// Notes a change that is no action, with the lock held; true: start the writer.
    func noteChange() -> Bool {
        keeper?.lock.withLock { $0.writing.noteChange() } ?? false
    }

    /// Goes on from what was loaded, and applies what was held back in the meantime, in order.
    func restore(_ recovery: FluxRecovery<State>) {
        guard let keeper else { return }
        // While all is held back still: nobody writes yet, whose failure could be reported meanwhile.
        keeper.report(recovery.restoration)
        var stored = recovery.state
        var wakes: ContiguousArray<FluxWakes<Outlet>> = []
        var outcome = FluxStepOutcome<State>()
        var told: ContiguousArray<(action: any FluxAction, revision: UInt64?, duration: UInt64)> = []
        let chain = chainIfWatched
        let release = lock.withLock { machine in
            // Asked for in here: who begins to record has the lock.
            let histories = histories
            if stored != nil {
                wakes.append(machine.restore(&stored!, revision: recovery.revision))
                for history in histories {
                    unsafeDowncast(history, to: FluxHistoryBook<State>.self).restart(machine.state, machine.revision)
                }
            }
            return keeper.lock.withLock { kept in
                kept.writing.start(from: recovery)
                let release = kept.hold.end(recovery.restoration)
                let thread = threads.current
                for step in release.actions {
                    let start = chain == nil ? 0 : fluxNow()
                    let applied = takeAndNote(step, &machine, &kept, histories, on: thread, &outcome)
                    if chain != nil { told.append((step.action, applied.revision, fluxNow() - start)) }
                    if case .none = applied.wakes {} else { wakes.append(applied.wakes) }
                }
                return release
            }
        }
        wakes.forEach { $0.forEach { $0.wake() } }
        for tap in outcome.taps { tap.wake() }
        let info = FluxStoreInfo(core: self, stateType: State.self)
        for (action, revision, duration) in told {
            chain?.tellApplied(action, to: info, revision: revision, in: duration)
        }
        for waiter in release.waiters { waiter.leave() }
        if outcome.startsWriter { keeper.startWriter(self) }
        if release.isClosed { work(self, .end) }
    }

    /// Ends the subscriptions after what is due, what is held back included.
    func end() {
        if detours.load(ordering: .relaxed) & FluxDetours.kept == 0 { return work(self, .end) }
        if keeper?.lock.withLock({ $0.hold.close() }) ?? true { work(self, .end) }
    }

    // MARK: - Dispatching durably

    /// What came of one attempt to dispatch durably.
    @usableFromInline
    enum Attempt {
        case refused(FluxRestoration)
        case waitsForLoad(id: UInt64)
        case waitsForRoom(id: UInt64)
        case isCancelled
        case applied(revision: UInt64?, number: UInt64, id: UInt64)
    }

    /// Applies an action if it is its turn, and otherwise says what to wait for.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - latch: What is left once the wait is over.
    ///   - ticket: What an earlier attempt was given to wait for room.
    ///   - keeper: The keeper of this core.
    /// - Returns: What came of it.
    @inlinable
    func attempt(
        _ action: State.Action, _ latch: FluxLatch, ticket: UInt64?, _ keeper: FluxKeeper<State>
    ) -> Attempt {
        let thread = threads.current
        if thread.pointee.handling != nil { fluxStopImpureHandle("dispatch(durably:)") }
        latch.enter()
        let chain = chainIfWatched
        let histories = histories
        let start = chain == nil ? 0 : fluxNow()
        var wakes = FluxWakes<Outlet>.none
        var outcome = FluxStepOutcome<State>()
        let attempt = lock.withLock { machine in
            keeper.lock.withLock { kept -> Attempt in
                if let obstacle = kept.obstacle(latch, ticket: ticket) { return obstacle }
                let applied = takeAndNote(.action(action), &machine, &kept, histories, on: thread, &outcome)
                wakes = applied.wakes
                let number = kept.writing.last
                return .applied(revision: applied.revision, number: number, id: kept.writing.wait(latch) ?? 0)
            }
        }
        if chain != nil, case .applied(let revision?, _, _) = attempt { stamp(revision, at: fluxNow()) }
        wakes.forEach { $0.wake() }
        for tap in outcome.taps { tap.wake() }
        if outcome.startsWriter { keeper.startWriter(self) }
        if let chain, case .applied(let revision, _, _) = attempt {
            tell(chain, action, revision: revision, in: fluxNow() - start, on: thread)
        }
        return attempt
    }

    @usableFromInline
    func tell(
        _ chain: FluxChain, _ action: State.Action, revision: UInt64?, in duration: UInt64,
        on thread: UnsafeMutablePointer<FluxThread>
    ) {
        chain.tellDispatched(action, on: thread)
        chain.tellApplied(
            action, to: FluxStoreInfo(core: self, stateType: State.self), revision: revision, in: duration)
    }

    @inlinable
    func dispatch(
        durably action: State.Action, _ keeper: FluxKeeper<State>
    ) async throws(FluxDurabilityError) -> UInt64? {
        if _Concurrency.Task.isCancelled { throw .cancelled }
        var ticket: UInt64?
        while true {
            let latch = FluxLatch()
            switch attempt(action, latch, ticket: ticket, keeper) {
            case .refused(let restoration): throw .logNotRead(restoration)
            case .isCancelled: throw .cancelled
            case .waitsForLoad(let id):
                await latch.wait()
                keeper.lock.withLock { $0.hold.withdraw(id) }
                if _Concurrency.Task.isCancelled { throw .cancelled }
            case .waitsForRoom(let id):
                await latch.wait()
                ticket = id
            case .applied(let revision, let number, let id):
                await latch.wait()
                if !_Concurrency.Task.isCancelled { return revision }
                let isDone = keeper.lock.withLock { kept in
                    kept.writing.withdraw(id)
                    return kept.writing.done >= number
                }
                if isDone { return revision }
                throw .unconfirmed(revision: revision)
            }
        }
    }
}

nonisolated extension FluxKeeper {
    /// Tells of a load that ended badly; it is not tried again.
    func report(_ restoration: FluxRestoration) {
        let error: any Error
        switch restoration {
        case .loading, .restored, .empty: return
        case .timedOut: error = FluxLoadTimeout(limit: keeping.loadTimeout)
        case .failed(let reason): error = reason
        }
        keeping.onFailure(FluxPersistenceFailure(operation: .load, error: error, attempt: 1, retryAfter: nil))
    }
}

nonisolated extension FluxKeeper.Machine {
    /// Why an action cannot be applied yet, or at all; nil: it can.
    @inlinable
    mutating func obstacle(_ latch: FluxLatch, ticket: UInt64?) -> FluxStoreCore<State>.Attempt? {
        if let id = hold.wait(latch) { return .waitsForLoad(id: id) }
        if writing.isClosed { return .refused(hold.restoration) }
        if let ticket { return writing.redeem(ticket) ? nil : .isCancelled }
        return writing.admit(latch).map { .waitsForRoom(id: $0) }
    }
}

/// A load took longer than it was given.
nonisolated struct FluxLoadTimeout: Error, CustomStringConvertible {
    let limit: Swift.Duration?

    var description: String { "it took longer than \(limit.map { "\($0)" } ?? "allowed")" }
}
