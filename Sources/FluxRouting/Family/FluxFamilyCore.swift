#if canImport(FluxCore)
    import FluxCore
#endif

/// The part of a family that lives as long as anybody has a lease or anything is being put away; its handle, ``FluxFamily``, may
/// go before.
///
/// What the machine decides is done here, without its lock. Of each key one at a time tells the store of the open members: who
/// has made it, then who begins to close it, then who has found that it stays.
nonisolated final class FluxFamilyCore<Key: Hashable & Sendable, Member: Sendable>: Sendable {
    typealias Members = FluxFamilyMembers<Key, Member>
    typealias Grant = (slot: Int, member: Member)
    typealias Machine = FluxFamilyMachine<Key, Member, FluxFamilyAnswer<Grant>, FluxFamilyAnswer<Bool>>

    /// What the user gave.
    struct Ways: Sendable {
        let make: @Sendable (Key) async throws -> Member
        let close: @Sendable (Key, Member) async throws -> Void
        let onFailure: (@Sendable (Key, any Error) -> Void)?

        func tell(_ key: Key, _ error: any Error) {
            if let onFailure { return onFailure(key, error) }
            FluxRoutingMessages.warn("\"\(key)\" could not be put away, and stays: \(error)")
        }
    }

    /// The open members: a store, so that it is read and watched in all the ways a store is.
    let open = FluxStore(initialState: Members(), dispatcher: nil)
    let timer: FluxFamilyTimer
    private let ways: Ways
    private let machine: FluxLock<Machine>
    /// Sleeps until the next is due, for all of them.
    private let sleeper = FluxLock<_Concurrency.Task<Void, Never>?>(nil)

    init(idle: Swift.Duration, limit: Int, _ timer: FluxFamilyTimer, _ ways: Ways) {
        (self.timer, self.ways) = (timer, ways)
        machine = FluxLock(Machine(idle: idle, limit: limit))
    }

    deinit { sleeper.withLock { $0 }?.cancel() }

    // MARK: - Coming and going

    /// Takes a lease; what waits for it leaves at once where the task is cancelled.
    func ask(for key: Key) async throws -> Grant {
        try _Concurrency.Task.checkCancellation()
        let (asked, effects) = machine.withLock { $0.ask(key) { FluxFamilyAnswer() } }
        perform(effects)
        switch asked {
        case .granted(let slot, let member): return (slot, member)
        case .refused: throw FluxFamilyError.shutDown(key: "\(key)")
        case .waits(let slot, let id, let visitor):
            defer { machine.withLock { $0.withdraw(id, from: slot) } }
            return try await visitor.wait()
        }
    }

    func release(_ slot: Int) {
        let now = timer.now()
        perform(machine.withLock { $0.release(slot, at: now) })
    }

    func close(_ key: Key) async throws {
        try _Concurrency.Task.checkCancellation()
        let closer = FluxFamilyAnswer<Bool>()
        let (place, effects) = machine.withLock { $0.close(key, closer) }
        perform(effects)
        guard let place else { return }
        defer { machine.withLock { $0.withdraw(place.id, from: place.slot) } }
        _ = try await closer.wait()
    }

    func shutDown(within duration: Swift.Duration) async -> FluxFamilyShutdown<Key> {
        let deadline = timer.now() + Swift.min(duration, FluxFamilyTimer.longest)
        let (told, effects) = machine.withLock { $0.shutDown { FluxFamilyAnswer() } }
        perform(effects)
        let waiting = _Concurrency.Task { for (_, closer) in told { await closer.settled() } }
        // Not waited for: a clock of the user's may go on sleeping all the same.
        let sleeping = _Concurrency.Task { [timer] in
            await timer.sleep(deadline)
            waiting.cancel()
        }
        await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            waiting.cancel()
        }
        sleeping.cancel()
        var report = FluxFamilyShutdown<Key>()
        for (key, closer) in told {
            switch closer.answer {
            case .success(true): report.closed.append(key)
            case .success(false): break
            case .failure(let error): report.failed[key] = error
            case nil: report.late.append(key)
            }
        }
        return report
    }

    /// The family was let go of: closes what nobody uses now, and the others once their leases are released.
    func letGo() { perform(machine.withLock { $0.shutDown(nil).1 }) }

    // MARK: - What the machine decides

    private func perform(_ effects: [Machine.Effect]) {
        for effect in effects {
            switch effect {
            // Detached: it is not for the task alone that happens to be the first.
            case .make(let slot, let key): _Concurrency.Task.detached { await self.make(slot, key) }
            case .close(let slot, let key):
                // First of all, for who watches is to let go of the member before it is closed.
                open.dispatch(action: .closed(key))
                _Concurrency.Task.detached { await self.putAway(slot, key) }
            case .admit(let visitors, let slot, let member):
                // Who gave up in the meantime has no use for it.
                for visitor in visitors where !visitor.give(.success((slot, member))) { release(slot) }
            case .refuse(let visitors, let error): for visitor in visitors { visitor.give(.failure(error)) }
            case .answer(let closers, let result): for closer in closers { closer.give(result) }
            case .sleep: sleep()
            case .end: open.dispatch(action: .ended)
            }
        }
    }

    private func make(_ slot: Int, _ key: Key) async {
        let result: Swift.Result<Member, any Error>
        do {
            let member = try await ways.make(key)
            open.dispatch(action: .opened(key, member))
            result = .success(member)
        } catch {
            result = .failure(error)
        }
        let now = timer.now()
        perform(machine.withLock { $0.made(slot, result, at: now) })
    }

    private func putAway(_ slot: Int, _ key: Key) async {
        guard let error = await close(slot, key) else { return perform(closed(slot)) }
        let now = timer.now()
        let (member, effects) = machine.withLock { $0.kept(slot, error, at: now) }
        // It is let go of all the same, for nobody could try again.
        if member != nil { open.dispatch(action: .closed(key)) }
        ways.tell(key, error)
        perform(effects)
    }

    /// Lets go of a member, before another is made in its place: it may hold what there is only one of.
    private func closed(_ slot: Int) -> [Machine.Effect] { machine.withLock { $0.closed(slot) }.1 }

    /// Closes a member, which nobody but the machine keeps when this returns; the error that it stays with.
    private func close(_ slot: Int, _ key: Key) async -> (any Error)? {
        guard let member = machine.withLock({ $0.member(of: slot) }) else { return nil }
        do {
            try await ways.close(key, member)
            return nil
        } catch {
            // Before the machine says so, as when it was made.
            open.dispatch(action: .opened(key, member))
            return error
        }
    }

    private func sleep() {
        // Started with the lock held: else one that ended before it was noted here would be noted in the place of the next.
        sleeper.withLock { sleeper in
            sleeper = _Concurrency.Task.detached { [weak self, timer] in
                while let due = self?.machine.withLock({ $0.nextDue() }) {
                    await timer.sleep(due)
                    self?.wake(Swift.max(due, timer.now()))
                }
            }
        }
    }

    private func wake(_ now: Swift.Duration) { perform(machine.withLock { $0.wake(at: now) }) }
}

/// What somebody who waits is told, unless he gave up first: of the answers the first counts.
nonisolated final class FluxFamilyAnswer<Value: Sendable>: Sendable {
    private let latch = FluxLatch()
    private let first = FluxLock<Swift.Result<Value, any Error>?>(nil)

    /// What counts; nil: nobody has answered.
    var answer: Swift.Result<Value, any Error>? { first.withLock { $0 } }

    /// Answers; false: there was an answer.
    @discardableResult func give(_ answer: Swift.Result<Value, any Error>) -> Bool {
        let counts = first.withLock { first in
            defer { first = first ?? answer }
            return first == nil
        }
        latch.open()
        return counts
    }

    /// Waits for the answer, or until the task is cancelled.
    func wait() async throws -> Value {
        await latch.wait()
        give(.failure(_Concurrency.CancellationError()))
        return try answer!.get()
    }

    /// Waits for the answer, or until the task is cancelled, which is no answer.
    func settled() async { if answer == nil { await latch.wait() } }
}

/// A clock of any kind, from the moment that this is made.
nonisolated struct FluxFamilyTimer: Sendable {
    let now: @Sendable () -> Swift.Duration
    /// Sleeps until a moment, or until the task is cancelled.
    let sleep: @Sendable (Swift.Duration) async -> Void

    init(_ clock: some _Concurrency.Clock<Swift.Duration>) {
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleep = { try? await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
    }

    /// A century: the clocks of the system stop the program where they are given more than they can count.
    static var longest: Swift.Duration { .seconds(3_000_000_000) }
}
