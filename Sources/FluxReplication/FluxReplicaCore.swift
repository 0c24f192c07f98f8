#if canImport(FluxCore)
    import FluxCore
#endif

/// The writers of the replicas that this process has closed, with their next numbers; later replicas of the same logs
/// reuse them.
///
/// A ledger keeps a writer until it has been silent for a long time. Without reuse, a replica that is opened and closed
/// repeatedly would add a new writer each time. To the other nodes, a replica that reuses a writer looks like the old
/// replica after a pause.
nonisolated private let fluxClosedWriters = FluxLock<[UInt64: UInt64]>([:])

/// Carries out the decisions of a replica's machine: reads the log, applies, appends and saves.
nonisolated final class FluxReplicaCore<State: FluxState>: Sendable {
    /// The background jobs of an open replica, at most one of each.
    ///
    /// `asking` calls the log for a waiting caller or appends an objection; its value is the number of either.
    private enum Job: Hashable { case reading, saving, probing, asking(UInt64) }

    private typealias End = (end: Swift.Duration, duration: Swift.Duration)
    private typealias Alarm = _Concurrency.Task<Void, Never>

    private struct Jobs {
        var tasks: [Job: _Concurrency.Task<Void, Never>] = [:]
        /// When the time of each waiting caller is up, and the duration that it was given.
        var ends: [UInt64: End] = [:]
        /// The task that sleeps for all of them, until the first end or earlier.
        var alarm: (end: Swift.Duration, task: Alarm)?
        var isClosed = false
    }

    let store: FluxStore<State>
    let status: FluxStore<FluxReplicaStatus>
    private let log: any FluxSharedLog<[UInt8]>
    private let initialState: State
    private let coding: FluxReplicaCoding<State>
    private let backoff: FluxBackoff
    private let clock: FluxReplicaClock
    private let machine: FluxLock<FluxReplicaMachine>
    private let jobs = FluxLock(Jobs())

    init(
        _ log: any FluxSharedLog<[UInt8]>, _ initialState: State, _ coding: FluxReplicaCoding<State>,
        _ backoff: FluxBackoff, _ clock: any _Concurrency.Clock<Swift.Duration>, _ machine: FluxReplicaMachine
    ) {
        (self.log, self.initialState, self.coding) = (log, initialState, coding)
        (self.backoff, self.clock) = (backoff, FluxReplicaClock(clock))
        self.machine = FluxLock(machine)
        status = FluxStore(initialState: machine.status, dispatcher: nil)
        store = FluxStore(initialState: initialState, dispatcher: nil) { handle in
            handle.withAccess { access in
                access.hold { change in
                    fatalError(
                        """
                        FluxCore: \(String(reflecting: type(of: change.action))) was dispatched to the store of a FluxReplica, so no other node \
                        would have it. Use dispatch(action:) of the replica, and do not attach its store to a dispatcher.
                        """)
                }
            }
        }
    }

    // MARK: - Positions

    // Holds the store's lock, because `receive` changes the position and the state while holding it.
    var position: UInt64 { store.handle.withAccess { _ in machine.withLock { $0.position } } }
    var lag: UInt64 { machine.withLock { $0.lag } }

    // MARK: - Waiting callers

    func dispatch(_ action: State.Action, within duration: Swift.Duration) async throws(FluxReplicaError) -> UInt64 {
        if _Concurrency.Task.isCancelled { throw .cancelled }
        let version = coding.versionOf(action)
        guard (0...coding.version).contains(version) else {
            throw .notApplied("its version is \(version), and the newest that this program knows is \(coding.version)")
        }
        let encoded = try Swift.Result { try coding.encode(action) }
            .mapError { FluxReplicaError.notApplied("it cannot be encoded: \($0)") }.get()
        var (envelope, latch) = try machine.withLock { $0.dispatch() }.get()
        envelope.action = FluxReplicaContent(version: version, bytes: encoded)
        let (key, bytes) = (envelope.key, envelope.bytes)
        return try await wait(envelope.number, latch, within: duration) { log throws(FluxSharedLogError) in
            try await log.append(bytes, key: key)
        }
    }

    func upToDate(within duration: Swift.Duration, joins: Bool = false) async throws(FluxReplicaError) -> UInt64 {
        if _Concurrency.Task.isCancelled { throw .cancelled }
        let (id, latch) = try machine.withLock { $0.read(joins: joins) }.get()
        let position = try await wait(id, latch, within: duration) { log throws(FluxSharedLogError) in
            try await log.end()
        }
        // Only after joining: the ledger that was read shows which of the closed writers belong to this log.
        if joins { machine.withLock { machine in fluxClosedWriters.withLock { machine.takeOver(from: &$0) } } }
        return position
    }

    /// Calls the log until it answers, and waits at most for a duration until the machine has an answer for the caller.
    private func wait(
        _ id: UInt64, _ latch: FluxLatch, within duration: Swift.Duration,
        _ ask: @escaping @Sendable (any FluxSharedLog<[UInt8]>) async throws(FluxSharedLogError) -> UInt64
    ) async throws(FluxReplicaError) -> UInt64 {
        let end = clock.end(after: duration)
        // The asking task is not awaited: the user's log or clock may ignore its cancellation.
        let (asking, oldAlarm) = jobs.withLock { jobs -> (_Concurrency.Task<Void, Never>?, Alarm?) in
            let asking = start(.asking(id), &jobs) { core in
                await core.retry {
                    let answer = await core.call(ask)
                    // A log's reply to a cancelled task says nothing about the log.
                    return _Concurrency.Task.isCancelled || !core.perform { $0.answered(id, answer, &$1) }
                }
            }
            guard let asking else { return (nil, nil) }
            jobs.ends[id] = (end, duration)
            let isFirst = jobs.alarm.map { end < $0.end } ?? true
            return (asking, isFirst ? setAlarm(end, &jobs) : nil)
        }
        oldAlarm?.cancel()
        await latch.wait()
        // The thread whose change made this answer possible may not have published the status yet.
        tellStatus()
        let answer = machine.withLock { $0.finish(id) }
        jobs.withLock { $0.ends[id] = nil }
        // Not earlier, because a log's reply to a cancelled task is not an answer.
        asking?.cancel()
        return try answer.get()
    }

    /// Starts the task that sleeps for all waiting callers; one task each would cost more than the rest of a dispatch.
    ///
    /// Returns the alarm that it replaces. The caller cancels it once the lock is free, because a cancellation runs
    /// code of the user's clock.
    private func setAlarm(_ end: Swift.Duration, _ jobs: inout Jobs) -> Alarm? {
        let old = jobs.alarm?.task
        let sleeping = _Concurrency.Task.detached { [self] in
            await clock.sleepUntil(end)
            // A cancelled alarm was replaced, or the replica has ended.
            if !_Concurrency.Task.isCancelled { timeIsUp(end) }
        }
        jobs.alarm = (end, sleeping)
        return old
    }

    private func timeIsUp(_ end: Swift.Duration) {
        // Expires every wait whose time is up by now. Otherwise each would need its own alarm.
        let time = Swift.max(end, clock.end(after: .zero))
        let late = jobs.withLock { jobs -> [UInt64: End] in
            // Then this alarm woke just before it was cancelled or replaced.
            if jobs.isClosed || jobs.alarm?.end != end { return [:] }
            let late = jobs.ends.filter { $0.value.end <= time }
            for id in late.keys { jobs.ends[id] = nil }
            jobs.alarm = nil
            if let next = jobs.ends.values.map(\.end).min() { _ = setAlarm(next, &jobs) }
            return late
        }
        for (id, wait) in late { perform { $0.expired(id, wait.duration, &$1) } }
    }

    // MARK: - Reading the log

    func start() { start(.reading) { await $0.follow() } }

    /// Reads the log until the replica ends, and loads a snapshot first whenever one is needed.
    private func follow() async {
        var failures = 0
        repeat {
            do {
                if machine.withLock({ !$0.isLoaded }) { try await load() }
                let position = machine.withLock { machine in
                    machine.readingBegins()
                    return machine.position
                }
                try await log.read(after: position) { entries in
                    failures = 0
                    try self.receive(entries)
                }
                throw FluxSharedLogError.unavailable("the log ended the reading without an error")
            } catch {
                // Described with no lock held: a description is code of the user.
                let isKnown = error is FluxSharedLogError || error is FluxReplicaDivergence
                let reason = isKnown ? error : FluxSharedLogError.unavailable("\(error)")
                perform { $0.readingEnded(reason, &$1) }
            }
            failures += 1
        } while await pause(after: failures)
    }

    private func receive(_ entries: [FluxSharedEntry<[UInt8]>]) throws {
        if let last = entries.last { perform { $0.read(upTo: last.position, &$1) } }
        for entry in entries {
            let (envelope, action) = try parse(at: entry.position) {
                let envelope = try FluxReplicaEnvelope(entry.entry)
                return (envelope, try envelope.action.map { try decode($0, coding.decode) })
            }
            let step = store.handle.withAccess { access in
                let step = machine.withLock { $0.receive(entry.position, envelope) }
                if step?.applies == true, let action { access.apply(.action(action), pastGate: true) }
                return step
            }
            guard let step else { throw _Concurrency.CancellationError() }
            follow(step)
            if let divergence = step.diverges { throw divergence }
        }
    }

    private func load() async throws {
        let needed = machine.withLock { $0.trimmed }
        var (state, ledger) = (initialState, FluxReplicaLedger())
        if let snapshot = try await log.snapshot() {
            (state, ledger) = try parse(at: snapshot.position, "the snapshot: ") {
                let image = try FluxReplicaImage(snapshot.state)
                if image.ledger.position != snapshot.position {
                    throw FluxReplicaUnreadable(description: "it is the one of position \(image.ledger.position)")
                }
                return (try decode(image.state, coding.decodeState), image.ledger)
            }
        }
        if ledger.position < needed {
            throw FluxSharedLogError.unavailable(
                "the entries up to \(needed) are gone, but the newest snapshot is at \(ledger.position)")
        }
        let step = store.handle.withAccess { access in
            let step = machine.withLock { $0.loaded(ledger) }
            if step != nil { access.replace(with: state, by: FluxReplicaLoaded()) }
            return step
        }
        if let step { follow(step) }
    }

    private func decode<Value>(
        _ content: FluxReplicaContent, _ decode: ([UInt8], Int) throws -> Value
    ) throws -> Value {
        if content.version > coding.version {
            throw FluxReplicaUnreadable(version: content.version, description: "it is newer")
        }
        do { return try decode(content.bytes, content.version) } catch {
            throw FluxReplicaUnreadable(version: content.version, description: "it cannot be decoded: \(error)")
        }
    }

    /// Runs code that parses what is at a position of the log; if it throws, the replica stops.
    private func parse<Value>(at position: UInt64, _ what: String = "", _ body: () throws -> Value) throws -> Value {
        do { return try body() } catch {
            let (version, reason) = ((error as? FluxReplicaUnreadable)?.version, "\(what)\(error)")
            let stop = FluxReplicaStop(position: position, version: version, known: coding.version, reason: reason)
            perform { $0.stopped(stop, &$1) }
            throw error
        }
    }

    // MARK: - Effects

    @discardableResult private func perform<Result>(
        _ decide: (inout FluxReplicaMachine, inout FluxReplicaEffects) -> Result
    ) -> Result {
        var effects = FluxReplicaEffects()
        let result = machine.withLock { decide(&$0, &effects) }
        follow(effects)
        return result
    }

    private func tellStatus() {
        // Read while holding the status store's lock, so that of two concurrent calls the newer status is applied last.
        status.handle.withAccess { access in
            let newest = machine.withLock { $0.status }
            if newest != access.state { access.apply(.action(FluxReplicaStatus.Action(status: newest))) }
        }
    }

    private func follow(_ effects: FluxReplicaEffects) {
        if effects.tellsStatus { tellStatus() }
        for latch in effects.opens { latch.open() }
        if effects.probes { start(.probing) { await $0.probe() } }
    }

    private func follow(_ step: FluxReplicaStep) {
        // Before any caller resumes: its next dispatch then carries the checksum, and `close()` finds the running save.
        if step.isCheckDue || step.saves != nil { encode(step) }
        follow(step.effects)
        if let objection = step.objection { start(.asking(objection.number)) { await $0.append(objection) } }
    }

    /// Computes a checksum of the state, and saves a snapshot of it, if they are due.
    private func encode(_ step: FluxReplicaStep) {
        // Only the reading task, which calls this, changes these two.
        let (state, ledger) = (store.state, machine.withLock { $0.ledger })
        let trim = step.saves.flatMap { trim in perform { $0.beginSaving(&$1) } ? trim : nil }
        if !step.isCheckDue && trim == nil { return }
        do {
            let content = FluxReplicaContent(version: coding.version, bytes: try coding.encodeState(state))
            let bytes = FluxReplicaImage(ledger: ledger, state: content).bytes
            // The checksum that the bytes end with already is left out: it would cancel a part of this one.
            if step.isCheckDue { perform { $0.checked(FluxReplicaBytes.checksum(bytes.dropLast(8)), &$1) } }
            guard let trim else { return }
            start(.saving) { await $0.save(FluxSharedSnapshot(position: ledger.position, state: bytes), trim) }
        } catch {
            let failure = "the state cannot be encoded: \(error)"
            if step.isCheckDue { perform { $0.notChecked(failure, &$1) } }
            if trim != nil { perform { $0.saved(failure, &$1) } }
        }
    }

    /// Appends an objection, which no caller waits for; without it another node would continue with a wrong state.
    private func append(_ envelope: FluxReplicaEnvelope) async {
        await retry {
            let answer = await call { log throws(FluxSharedLogError) in
                try await log.append(envelope.bytes, key: envelope.key)
            }
            return if case .failure(.unavailable) = answer { false } else { true }
        }
    }

    private func save(_ snapshot: FluxSharedSnapshot<[UInt8]>, _ trim: UInt64) async {
        var (failure, isSaved): (String?, Bool) = (nil, false)
        do {
            try await log.save(snapshot)
            isSaved = true
            if trim > 0 { try await log.trim(through: trim) }
        } catch {
            failure = isSaved ? "it was saved, but the entries before it were not trimmed: \(error)" : "\(error)"
        }
        perform { $0.saved(failure, &$1) }
    }

    /// Asks the log for its end until it answers and is read again.
    private func probe() async {
        await retry(after: 1) {
            let answer = await call { log throws(FluxSharedLogError) in try await log.end() }
            return perform { $0.probed(answer, &$1) }
        }
    }

    // MARK: - The end

    /// Ends all jobs without waiting for them.
    @discardableResult func end() -> [_Concurrency.Task<Void, Never>] {
        perform { $0.closed(&$1) }
        let (last, isFirst) = jobs.withLock { jobs in
            defer { jobs.isClosed = true }
            return (jobs, !jobs.isClosed)
        }
        // Only the first call does this: another replica may have taken the writer over since.
        if isFirst { machine.withLock { machine in fluxClosedWriters.withLock { machine.handOver(to: &$0) } } }
        last.alarm?.task.cancel()
        let tasks = Array(last.tasks.values)
        // A save is not cancelled: replicas that are closed soon after their last action would never save a snapshot.
        for task in tasks where task != last.tasks[.saving] { task.cancel() }
        return tasks
    }

    func close() async {
        let (tasks, ended) = (end(), FluxLatch())
        _Concurrency.Task.detached {
            for task in tasks { await task.value }
            ended.open()
        }
        await ended.wait()
        // Has an effect only if this task was cancelled: then a save that does not end is cancelled too.
        for task in tasks { task.cancel() }
    }

    /// Starts a job; returns nil if the replica is closed.
    private func start(
        _ job: Job, _ jobs: inout Jobs, _ body: @escaping @Sendable (FluxReplicaCore) async -> Void
    ) -> _Concurrency.Task<Void, Never>? {
        if jobs.isClosed { return nil }
        // The lock is held, so that a job that ends at once cannot remove itself before it has been added.
        let task = _Concurrency.Task.detached { [self] in
            await body(self)
            // For any other job, the entry may already be that of the next one.
            if case .asking = job { self.jobs.withLock { $0.tasks[job] = nil } }
        }
        jobs.tasks[job] = task
        return task
    }

    private func start(_ job: Job, _ body: @escaping @Sendable (FluxReplicaCore) async -> Void) {
        _ = jobs.withLock { start(job, &$0, body) }
    }

    // MARK: - Time

    /// Repeats an operation, which has failed a number of times before, until it returns true; pauses after each failure.
    private func retry(after failed: Int = 0, _ isAll: () async -> Bool) async {
        var failed = failed
        repeat {
            if failed > 0, await !pause(after: failed) { return }
            failed += 1
        } while await !isAll()
    }

    /// Waits before the next attempt; returns false if there must not be one.
    private func pause(after attempt: Int) async -> Bool {
        if machine.withLock({ $0.isOver }) { return false }
        let delay = backoff.delay(after: attempt)
        let (end, latch) = (clock.end(after: delay), FluxLatch())
        // Sleeps in a separate task, because a clock may ignore cancellation and `close()` waits for this one.
        let sleeping = _Concurrency.Task.detached { [clock] in
            await clock.sleepUntil(end)
            latch.open()
        }
        await latch.wait()
        sleeping.cancel()
        return !_Concurrency.Task.isCancelled && machine.withLock { !$0.isOver }
    }

    private func call(
        _ body: (any FluxSharedLog<[UInt8]>) async throws(FluxSharedLogError) -> UInt64
    ) async -> Swift.Result<UInt64, FluxSharedLogError> {
        do throws(FluxSharedLogError) { return .success(try await body(log)) } catch { return .failure(error) }
    }
}

/// A clock of any type, whose times are durations since the creation of this value.
nonisolated private struct FluxReplicaClock: Sendable {
    private let now: @Sendable () -> Swift.Duration
    /// Returns once that time has come or the task is cancelled.
    let sleepUntil: @Sendable (Swift.Duration) async -> Void

    init(_ clock: some _Concurrency.Clock<Swift.Duration>) {
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleepUntil = { try? await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
    }

    /// Returns when a duration that begins with this call ends.
    ///
    /// This is not left to the sleeping task: a clock that is advanced by hand may be advanced before that task runs.
    func end(after duration: Swift.Duration) -> Swift.Duration {
        // About a century at most: the system's clocks stop the program on durations that they cannot represent.
        now() + Swift.max(.zero, Swift.min(duration, .seconds(Int64(3_000_000_000))))
    }
}

/// Tells observers of the store that a snapshot has replaced the state.
nonisolated struct FluxReplicaLoaded: FluxAction {}
