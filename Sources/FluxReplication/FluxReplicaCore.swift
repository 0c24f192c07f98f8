#if canImport(FluxCore)
    import FluxCore
#endif

/// The writers of the replicas that this process has closed, each with its next number, for the next replicas of the same logs.
///
/// Each ledger keeps a writer until it was silent for long, and a replica that is opened and put away again and again would be a new
/// one each time. It goes on as an old one instead: to everybody else it is that replica, after a pause.
nonisolated private let fluxClosedWriters = FluxLock<[UInt64: UInt64]>([:])

/// Does what the machine of a replica decides: reads the log, applies, appends, saves.
nonisolated final class FluxReplicaCore<State: FluxState>: Sendable {
    /// What runs on its own until the replica is closed, one of each: `asking` the log for somebody who waits, or appending an
    /// objection, under the number of that.
    private enum Job: Hashable { case reading, saving, probing, asking(UInt64) }

    private typealias End = (end: Swift.Duration, duration: Swift.Duration)
    private typealias Alarm = _Concurrency.Task<Void, Never>

    private struct Jobs {
        var tasks: [Job: _Concurrency.Task<Void, Never>] = [:]
        /// When the time of somebody who waits is up, and how long that was.
        var ends: [UInt64: End] = [:]
        /// What sleeps for all of them, until the first end or an earlier one.
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
                        would have it. Use dispatch(action:) of the replica, and attach its store to no dispatcher.
                        """)
                }
            }
        }
    }

    // MARK: - What is known

    // Under the lock of the store: so it is the position of the state that is read there.
    var position: UInt64 { store.handle.withAccess { _ in machine.withLock { $0.position } } }
    var lag: UInt64 { machine.withLock { $0.lag } }

    // MARK: - Those who wait

    func dispatch(_ action: State.Action, within duration: Swift.Duration) async throws(FluxReplicaError) -> UInt64 {
        if _Concurrency.Task.isCancelled { throw .cancelled }
        let version = coding.versionOf(action)
        guard (0...coding.version).contains(version) else {
            throw .notApplied("its version is \(version), and the newest that this program knows is \(coding.version)")
        }
        let content: FluxReplicaContent
        do {
            content = FluxReplicaContent(version: version, bytes: try coding.encode(action))
        } catch {
            throw .notApplied("it cannot be encoded: \(error)")
        }
        var (envelope, latch) = try machine.withLock { $0.dispatch() }.get()
        envelope.action = content
        let (key, bytes) = (envelope.key, envelope.bytes)
        return try await wait(envelope.number, latch, within: duration) { log in
            await Self.result { () async throws(FluxSharedLogError) in try await log.append(bytes, key: key) }
        }
    }

    func upToDate(within duration: Swift.Duration, joins: Bool = false) async throws(FluxReplicaError) -> UInt64 {
        if _Concurrency.Task.isCancelled { throw .cancelled }
        let (id, latch) = try machine.withLock { $0.read(joins: joins) }.get()
        let position = try await wait(id, latch, within: duration) { log in
            await Self.result { () async throws(FluxSharedLogError) in try await log.end() }
        }
        // Not before: only what it has read says which of them are of this log.
        if joins { machine.withLock { machine in fluxClosedWriters.withLock { machine.takeOver(from: &$0) } } }
        return position
    }

    /// Asks the log again and again, and waits for what the machine makes of the answer, for so long.
    private func wait(
        _ id: UInt64, _ latch: FluxLatch, within duration: Swift.Duration,
        _ ask: @escaping @Sendable (any FluxSharedLog<[UInt8]>) async -> Swift.Result<UInt64, FluxSharedLogError>
    ) async throws(FluxReplicaError) -> UInt64 {
        let end = clock.end(after: duration)
        // It is not waited for: a log, or a clock of the user's, may go on all the same.
        let (asking, oldAlarm) = jobs.withLock { jobs -> (_Concurrency.Task<Void, Never>?, Alarm?) in
            guard let asking = start(.asking(id), &jobs, { await $0.ask(for: id, ask) }) else { return (nil, nil) }
            jobs.ends[id] = (end, duration)
            let isFirst = jobs.alarm.map { end < $0.end } ?? true
            return (asking, isFirst ? setAlarm(end, &jobs) : nil)
        }
        oldAlarm?.cancel()
        await latch.wait()
        // The answer may come from another thread than what made it possible, which is to tell of that.
        tellStatus()
        let answer = machine.withLock { $0.finish(id) }
        jobs.withLock { $0.ends[id] = nil }
        // Only now: what a log says to one who was cancelled is no answer.
        asking?.cancel()
        return try answer.get()
    }

    /// One task sleeps for all who wait: one each would cost more than the rest of a dispatch.
    ///
    /// Returns the one in whose place it is, to be cancelled once the lock is free: a clock of the user's is told of that.
    private func setAlarm(_ end: Swift.Duration, _ jobs: inout Jobs) -> Alarm? {
        let old = jobs.alarm?.task
        let sleeping = _Concurrency.Task.detached { [self] in
            await clock.sleepUntil(end)
            // Cancelled: another is in its place, or all is over.
            if !_Concurrency.Task.isCancelled { timeIsUp(end) }
        }
        jobs.alarm = (end, sleeping)
        return old
    }

    private func timeIsUp(_ end: Swift.Duration) {
        // All whose time is up by now, or each would need an alarm of its own.
        let time = Swift.max(end, clock.end(after: .zero))
        let late = jobs.withLock { jobs -> [UInt64: End] in
            // One that wakes just before it is cancelled.
            if jobs.isClosed || jobs.alarm?.end != end { return [:] }
            let late = jobs.ends.filter { $0.value.end <= time }
            for id in late.keys { jobs.ends[id] = nil }
            jobs.alarm = nil
            if let next = jobs.ends.values.map(\.end).min() { _ = setAlarm(next, &jobs) }
            return late
        }
        for (id, wait) in late { perform { $0.expired(id, wait.duration, &$1) } }
    }

    /// Asks the log until it has answered.
    private func ask(
        for id: UInt64, _ ask: (any FluxSharedLog<[UInt8]>) async -> Swift.Result<UInt64, FluxSharedLogError>
    ) async {
        await retry {
            let answer = await ask(log)
            // What a log says to one who was cancelled says nothing about the log.
            return _Concurrency.Task.isCancelled || !perform { $0.answered(id, answer, &$1) }
        }
    }

    // MARK: - Reading the log

    func start() { start(.reading) { await $0.follow() } }

    /// Reads the log until the end, from a snapshot on wherever that is needed.
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
                throw FluxSharedLogError.unavailable("the reading has ended")
            } catch {
                perform { $0.readingEnded(error, &$1) }
            }
            failures += 1
        } while await pause(after: failures)
    }

    private func receive(_ entries: [FluxSharedEntry<[UInt8]>]) throws {
        if let last = entries.last { perform { $0.read(upTo: last.position, &$1) } }
        for entry in entries {
            let envelope: FluxReplicaEnvelope
            var action: State.Action?
            do {
                envelope = try FluxReplicaEnvelope(entry.entry)
                action = try envelope.action.map { try decode($0, coding.decode) }
            } catch {
                stop(at: entry.position, error)
                throw error
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
            do {
                let image = try FluxReplicaImage(snapshot.state)
                (state, ledger) = (try decode(image.state, coding.decodeState), image.ledger)
            } catch {
                stop(at: snapshot.position, error, "the snapshot: ")
                throw error
            }
        }
        if ledger.position < needed {
            throw FluxSharedLogError.unavailable(
                "the entries up to \(needed) are gone, and the newest snapshot is at \(ledger.position)")
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
            throw FluxReplicaUnknown(version: content.version, description: "it is newer")
        }
        do { return try decode(content.bytes, content.version) } catch {
            throw FluxReplicaUnknown(version: content.version, description: "it cannot be decoded: \(error)")
        }
    }

    private func stop(at position: UInt64, _ error: any Swift.Error, _ what: String = "") {
        let (version, reason) = ((error as? FluxReplicaUnknown)?.version, "\(what)\(error)")
        let stop = FluxReplicaStop(position: position, version: version, known: coding.version, reason: reason)
        perform { $0.stopped(stop, &$1) }
    }

    // MARK: - What follows

    @discardableResult private func perform<Result>(
        _ decide: (inout FluxReplicaMachine, inout FluxReplicaEffects) -> Result
    ) -> Result {
        var effects = FluxReplicaEffects()
        let result = machine.withLock { decide(&$0, &effects) }
        follow(effects)
        return result
    }

    private func tellStatus() {
        // Read under the lock of the store that tells it: of two that come at once the newer one is told last.
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
        // Before anybody is let out, so that what he dispatches next tells the checksum, and closing this finds the snapshot under way.
        if step.isCheckDue || step.saves != nil { encode(step) }
        follow(step.effects)
        if let objection = step.objection { start(.asking(objection.number)) { await $0.append(objection) } }
    }

    /// Takes a checksum of the state, and saves a snapshot of it, where that is due.
    private func encode(_ step: FluxReplicaStep) {
        // Nobody but the task that reads changes the two.
        let (state, ledger) = (store.state, machine.withLock { $0.ledger })
        let trim = step.saves.flatMap { trim in perform { $0.beginSaving(&$1) } ? trim : nil }
        if !step.isCheckDue && trim == nil { return }
        do {
            let content = FluxReplicaContent(version: coding.version, bytes: try coding.encodeState(state))
            let bytes = FluxReplicaImage(ledger: ledger, state: content).bytes
            if step.isCheckDue { perform { $0.checked(FluxReplicaBytes.checksum(bytes), &$1) } }
            guard let trim else { return }
            start(.saving) { await $0.save(FluxSharedSnapshot(position: ledger.position, state: bytes), trim) }
        } catch {
            let failure = "the state cannot be encoded: \(error)"
            if step.isCheckDue { perform { $0.notChecked(failure, &$1) } }
            if trim != nil { perform { $0.saved(failure, &$1) } }
        }
    }

    /// Appends what nobody waits for: without it another node would go on with what is wrong.
    private func append(_ envelope: FluxReplicaEnvelope) async {
        await retry {
            let answer = await Self.result { [log] () async throws(FluxSharedLogError) in
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
            failure = isSaved ? "it is saved, but the entries before it were not trimmed: \(error)" : "\(error)"
        }
        perform { $0.saved(failure, &$1) }
    }

    /// Asks for the end of the log until it answers.
    private func probe() async {
        var attempt = 1
        while await pause(after: attempt) {
            let answer = await Self.result { [log] () async throws(FluxSharedLogError) in try await log.end() }
            if perform({ $0.probed(answer, &$1) }) { return }
            attempt += 1
        }
    }

    // MARK: - The end

    /// Ends all that runs; does not wait for it.
    @discardableResult func end() -> [_Concurrency.Task<Void, Never>] {
        perform { $0.closed(&$1) }
        let (last, isFirst) = jobs.withLock { jobs in
            defer { jobs.isClosed = true }
            return (jobs, !jobs.isClosed)
        }
        // By the first alone: somebody may have taken it since.
        if isFirst { machine.withLock { machine in fluxClosedWriters.withLock { machine.handOver(to: &$0) } } }
        last.alarm?.task.cancel()
        let tasks = Array(last.tasks.values)
        // Not what saves a snapshot: where each is closed soon after its last action, none would ever come to be.
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
        // Only where this task was cancelled is there anything left: a save that does not end keeps the replica no longer.
        for task in tasks { task.cancel() }
    }

    /// Starts a job; nil: it is closed.
    private func start(
        _ job: Job, _ jobs: inout Jobs, _ body: @escaping @Sendable (FluxReplicaCore) async -> Void
    ) -> _Concurrency.Task<Void, Never>? {
        if jobs.isClosed { return nil }
        // With the lock held: what has ended takes itself out, and so not before it is in there.
        let task = _Concurrency.Task.detached { [self] in
            await body(self)
            // In the place of any other there may be the next.
            if case .asking = job { self.jobs.withLock { $0.tasks[job] = nil } }
        }
        jobs.tasks[job] = task
        return task
    }

    private func start(_ job: Job, _ body: @escaping @Sendable (FluxReplicaCore) async -> Void) {
        _ = jobs.withLock { start(job, &$0, body) }
    }

    // MARK: - Time

    /// Does something until it says that this was all, with a pause before it is tried again.
    private func retry(_ isAll: () async -> Bool) async {
        var attempt = 0
        repeat {
            attempt += 1
            if await isAll() { return }
        } while await pause(after: attempt)
    }

    /// Waits before what has failed is tried again; false: it is not.
    private func pause(after attempt: Int) async -> Bool {
        if machine.withLock({ $0.isOver }) { return false }
        let delay = backoff.delay(after: attempt)
        let (end, latch) = (clock.end(after: delay), FluxLatch())
        // By itself: a clock may go on with what was cancelled, and who closes the replica waits for this.
        let sleeping = _Concurrency.Task.detached { [clock] in
            await clock.sleepUntil(end)
            latch.open()
        }
        await latch.wait()
        sleeping.cancel()
        return !_Concurrency.Task.isCancelled && machine.withLock { !$0.isOver }
    }

    private static func result(
        _ body: () async throws(FluxSharedLogError) -> UInt64
    ) async -> Swift.Result<UInt64, FluxSharedLogError> {
        do throws(FluxSharedLogError) { return .success(try await body()) } catch { return .failure(error) }
    }
}

/// A clock of any type, by the time since it came here.
nonisolated private struct FluxReplicaClock: Sendable {
    private let now: @Sendable () -> Swift.Duration
    /// Returns when that time has come, or the task is cancelled.
    let sleepUntil: @Sendable (Swift.Duration) async -> Void

    init(_ clock: some _Concurrency.Clock<Swift.Duration>) {
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleepUntil = { try? await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
    }

    /// When so long from this call on is over: a clock that is moved on by hand may be moved right after.
    func end(after duration: Swift.Duration) -> Swift.Duration {
        // A century at most: the clocks of the system stop the program where they are given more than they can count.
        now() + Swift.max(.zero, Swift.min(duration, .seconds(Int64(3_000_000_000))))
    }
}

/// Says that a snapshot took the place of the state, to those who look on at the store.
nonisolated struct FluxReplicaLoaded: FluxAction {}

/// What this program cannot decode, and why.
nonisolated private struct FluxReplicaUnknown: Swift.Error, CustomStringConvertible {
    let version: Int
    let description: String
}
