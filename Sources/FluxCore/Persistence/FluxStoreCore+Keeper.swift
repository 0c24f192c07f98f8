import Dispatch

/// What the core of a store does differently because it has a keeper.
nonisolated extension FluxStoreCore {
    @inlinable var keeper: FluxKeeper<State>? {
        keeperIfAny.map { unsafeDowncast($0, to: FluxKeeper<State>.self) }
    }

    @usableFromInline var keeperIfAny: AnyObject? { extrasIfAny?.keeper }

    /// Applies an action and has it written, or holds it back while the load is under way.
    @usableFromInline
    func applyByDetour(_ action: State.Action, on thread: UnsafeMutablePointer<FluxThread>) -> Machine.Applied {
        guard let keeper else { return lock.withLock { apply(action, to: &$0, on: thread) } }
        let (applied, startsWriter) = lock.withLock { machine in
            keeper.lock.withLock { kept in
                if kept.hold.keep(action) { return (Machine.Applied(revision: nil, wakes: .none), false) }
                return applyAndNote(action, to: &machine, &kept, on: thread)
            }
        }
        // By way of a queue: the lock of a dispatcher may be held, and under that no task is made.
        if startsWriter { DispatchQueue.global().async { keeper.startWriter(self) } }
        return applied
    }

    /// Applies an action and notes it, with both locks held: what is written is in the order of what was applied.
    @inlinable
    func applyAndNote(
        _ action: State.Action,
        to machine: inout Machine,
        _ kept: inout FluxKeeper<State>.Machine,
        on thread: UnsafeMutablePointer<FluxThread>
    ) -> (Machine.Applied, startsWriter: Bool) {
        let applied = apply(action, to: &machine, on: thread)
        // A change that nobody was told of can wait to be saved with the next; a log has to have every action.
        return (applied, (kept.writing.isLog || applied.revision != nil) && kept.writing.note(action))
    }

    /// Goes on from what was loaded, and applies what was held back in the meantime, in order.
    func restore(_ recovery: FluxRecovery<State>) {
        guard let keeper else { return }
        var stored = recovery.state
        var wakes: ContiguousArray<FluxWakes<Outlet>> = []
        let (release, startsWriter) = lock.withLock { machine in
            if stored != nil { wakes.append(machine.restore(&stored!, revision: recovery.revision)) }
            return keeper.lock.withLock { kept in
                kept.writing.start(from: recovery)
                let release = kept.hold.end(recovery.restoration)
                let thread = threads.current
                var startsWriter = false
                for action in release.actions {
                    let (applied, starts) = applyAndNote(action, to: &machine, &kept, on: thread)
                    if case .none = applied.wakes {} else { wakes.append(applied.wakes) }
                    if starts { startsWriter = true }
                }
                return (release, startsWriter)
            }
        }
        wakes.forEach { $0.forEach { $0.wake() } }
        for waiter in release.waiters { waiter.leave() }
        if startsWriter { keeper.startWriter(self) }
        if release.isClosed { work(self, .end) }
        keeper.report(recovery.restoration)
    }

    /// Ends the subscriptions after what is due, what is held back included.
    func end() {
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
        var wakes = FluxWakes<Outlet>.none
        var startsWriter = false
        let attempt = lock.withLock { machine in
            keeper.lock.withLock { kept -> Attempt in
                if let obstacle = kept.obstacle(latch, ticket: ticket) { return obstacle }
                let (applied, starts) = applyAndNote(action, to: &machine, &kept, on: thread)
                (wakes, startsWriter) = (applied.wakes, starts)
                let number = kept.writing.last
                return .applied(revision: applied.revision, number: number, id: kept.writing.wait(latch) ?? 0)
            }
        }
        wakes.forEach { $0.wake() }
        if startsWriter { keeper.startWriter(self) }
        return attempt
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
