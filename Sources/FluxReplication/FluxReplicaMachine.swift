#if canImport(FluxCore)
    import FluxCore
#endif

/// Makes all decisions of a replica, as a pure state machine.
///
/// | input                  | effect                                                                                  |
/// |------------------------|-----------------------------------------------------------------------------------------|
/// | `dispatch`, `read`     | the caller waits with a number, or is refused: stopped, closed, diverged                |
/// | `answered`             | a dispatch waits for its entry, a fresh read for the end; or the log is called again    |
/// | `expired`, `finish`    | the wait ends; an unconfirmed number is given up: below the floor or named by entries   |
/// | `receive`              | apply or pass over; end the waits for it; a checksum or snapshot is due; or diverged    |
/// | `loaded`               | continue from a snapshot; end the waits for entries that it includes                    |
/// | `readingEnded`         | unread until a reading succeeds; or entries are gone and a snapshot is needed           |
/// | `takeOver`, `handOver` | continue the numbers of a closed replica of this process; or leave them to the next     |
/// | `stopped`, `closed`    | all waits end, and nothing happens any more                                             |
nonisolated struct FluxReplicaMachine {
    typealias Answer = Swift.Result<UInt64, FluxReplicaError>

    /// A waiting caller: until its action is read from the log, or until a position is reached.
    struct Wait {
        enum Kind { case dispatch, read, join }

        let latch: FluxLatch
        let kind: Kind
        /// How many entries had been read when the wait began.
        let base: UInt64
        /// The reason of the log's last failure; the action may be in the log all the same.
        var reason: String?
        var answer: Answer?

        /// Returns the error for a result that is not known.
        func unknown(_ reason: String) -> FluxReplicaError {
            kind == .dispatch ? .unconfirmed(reason) : .unavailable(reason)
        }
    }

    /// Distinguishes the entries of this replica from those of all others.
    private(set) var writer: UInt64
    /// The version with which this program encodes states.
    private let version: Int
    private let checkEvery: UInt64
    private let snapshotEvery: UInt64

    private(set) var ledger = FluxReplicaLedger()
    /// Why the replica refuses calls: it has diverged, has stopped or was closed; nil if it serves.
    private var refusal: FluxReplicaError?
    /// Whether the next entry continues the present state; otherwise a snapshot has to be loaded first.
    private(set) var isLoaded = false
    /// The lowest position of a snapshot from which the log can still be read.
    private(set) var trimmed: UInt64 = 0
    /// The highest position that this replica knows of.
    private var end: UInt64 = 0
    /// Why the log does not answer calls; nil if it does, as far as this replica knows.
    private var silence: String?
    /// Why the last reading of the log ended; nil if the log is being read, as far as this replica knows.
    private var unread: String?
    private var isReading = false
    private var isProbing = false
    private var isSaving = false
    private var snapshotFailure: String?

    /// The next number for a dispatch, a fresh read or an objection.
    private var next: UInt64 = 1
    /// The first number of this replica; lower ones are those of the replica whose writer it has taken over.
    private var first: UInt64 = 1
    /// No action with a lower number waits.
    private var floor: UInt64 = 1
    /// The numbers above the floor whose dispatch has ended unconfirmed; later entries name them, so that they come
    /// earlier or never.
    private var givenUp: [UInt64] = []
    private(set) var waits: [UInt64: Wait] = [:]
    /// The positions that callers wait for, by the numbers of their waits.
    private var goals: [UInt64: UInt64] = [:]

    /// The last checksums of this node, the newest last.
    private var checks: [FluxReplicaCheck] = []
    private var checksumFailure: String?
    /// The count of entries of the checksum that this node sent last.
    private var told: UInt64 = 0
    /// Checksums up to this count of entries are no longer compared: this node has already started over because of one.
    private var settled: UInt64 = 0
    /// The position at which the last snapshot was due.
    private var lastDue: UInt64 = 0

    init(writer: UInt64, version: Int, checkEvery: Int, snapshotEvery: Int) {
        (self.writer, self.version) = (writer, version)
        (self.checkEvery, self.snapshotEvery) = (UInt64(checkEvery), UInt64(snapshotEvery))
    }

    // MARK: - Reading

    var position: UInt64 { ledger.position }
    var lag: UInt64 { end > position ? end - position : 0 }

    /// Whether the replica has stopped or was closed, and so reads no more.
    var isOver: Bool { if case .stopped? = refusal { true } else { refusal == .closed } }

    var status: FluxReplicaStatus {
        let condition: FluxReplicaStatus.Condition =
            switch refusal {
            case .closed?: .closed
            case .stopped(let stop)?: .stopped(stop)
            case .diverged(let divergence)?: .diverged(divergence)
            default: (silence ?? unread).map { .unavailable($0) } ?? (isLoaded ? .following : .loading)
            }
        return FluxReplicaStatus(
            condition: condition, snapshotFailure: snapshotFailure, checksumFailure: checksumFailure)
    }

    // MARK: - Waiting callers

    /// Begins the dispatch of an action.
    ///
    /// - Returns: The envelope for the action, and the latch that opens once there is an answer.
    mutating func dispatch() -> Swift.Result<(envelope: FluxReplicaEnvelope, latch: FluxLatch), FluxReplicaError> {
        if let refusal { return .failure(refusal) }
        while floor < next, !isUnderWay(floor) { floor += 1 }
        givenUp.removeAll { $0 < floor }
        // Each entry names all of them, so their number is limited.
        if givenUp.count >= 1_000 { return .failure(.notApplied("1000 are unconfirmed behind one that still waits")) }
        let (number, latch) = wait(.dispatch)
        var envelope = FluxReplicaEnvelope(
            writer: writer, number: number, floor: floor, base: ledger.count, givenUp: givenUp)
        if let newest = checks.last, newest.count > told { (envelope.check, told) = (newest, newest.count) }
        return .success((envelope, latch))
    }

    /// Begins a fresh read; a joining caller waits even while the node starts over.
    mutating func read(joins: Bool = false) -> Swift.Result<(id: UInt64, latch: FluxLatch), FluxReplicaError> {
        if let refusal, isOver || !joins { return .failure(refusal) }
        return .success(wait(joins ? .join : .read))
    }

    private mutating func wait(_ kind: Wait.Kind) -> (id: UInt64, latch: FluxLatch) {
        let (id, latch) = (next, FluxLatch())
        waits[id] = Wait(latch: latch, kind: kind, base: ledger.count)
        next += 1
        return (id, latch)
    }

    private func isUnderWay(_ number: UInt64) -> Bool {
        waits[number].map { $0.kind == .dispatch && $0.answer == nil } ?? false
    }

    /// Handles the log's answer to a call: the position of an action, the log's end, or an error.
    ///
    /// - Returns: Whether the log has to be called again.
    mutating func answered(
        _ id: UInt64, _ answer: Swift.Result<UInt64, FluxSharedLogError>, _ effects: inout FluxReplicaEffects
    ) -> Bool {
        switch answer {
        case .success(let position):
            waits[id]?.reason = nil
            heard(of: position, &effects)
            guard let wait = waits[id], wait.kind != .dispatch, wait.answer == nil else { return false }
            if isLoaded && position <= ledger.position {
                give(id, .success(ledger.position), &effects)
            } else {
                goals[id] = position
            }
            return false
        case .failure(.unavailable(let reason)):
            guard let wait = waits[id], wait.answer == nil else { return false }
            unavailable(reason, &effects)
            waits[id]!.reason = reason
            return true
        case .failure(let error):
            guard let wait = waits[id] else { return false }
            let isNever = if case .refused = error { wait.kind == .dispatch && wait.reason == nil } else { false }
            give(id, .failure(isNever ? .notApplied("\(error)") : wait.unknown("\(error)")), &effects)
            return false
        }
    }

    /// Ends a wait whose time is up.
    mutating func expired(_ id: UInt64, _ duration: Swift.Duration, _ effects: inout FluxReplicaEffects) {
        guard let wait = waits[id] else { return }
        let last = (wait.reason ?? unread).map { "; the log failed: \($0)" } ?? ""
        give(id, .failure(wait.unknown("no answer within \(duration)\(last)")), &effects)
    }

    /// Removes a wait, and returns its answer; without one, the task was cancelled.
    mutating func finish(_ id: UInt64) -> Answer {
        guard let wait = waits.removeValue(forKey: id) else { return .failure(.cancelled) }
        let isDispatch = wait.kind == .dispatch
        goals[id] = nil
        let answer = wait.answer ?? .failure(isDispatch ? .unconfirmed("the task was cancelled") : .cancelled)
        if case .failure(.unconfirmed) = answer { givenUp.append(id) }
        return answer
    }

    private mutating func give(_ id: UInt64, _ answer: Answer, _ effects: inout FluxReplicaEffects) {
        guard let wait = waits[id], wait.answer == nil else { return }
        waits[id]!.answer = answer
        effects.opens.append(wait.latch)
    }

    // MARK: - Entries and snapshots of the log

    /// Records that the log is about to be read after the current position: only a reading may find it trimmed.
    mutating func readingBegins() { isReading = true }

    /// Records the position of the newest entry that was read.
    mutating func read(upTo position: UInt64, _ effects: inout FluxReplicaEffects) {
        if unread != nil { (unread, effects.tellsStatus) = (nil, true) }
        heard(of: position, &effects)
    }

    /// Handles the next entry; returns nil if the reading has to end.
    mutating func receive(_ position: UInt64, _ envelope: FluxReplicaEnvelope) -> FluxReplicaStep? {
        guard isLoaded, !isOver else { return nil }
        var step = FluxReplicaStep()
        // A log that is read again may repeat entries.
        if position <= ledger.position { return step }
        if let check = envelope.check, let own = differing(check) {
            diverge(FluxReplicaDivergence(position: position, count: check.count, own: own, other: check.sum), &step)
            return step
        }
        let isNew = ledger.admit(position, envelope)
        step.applies = isNew && envelope.action != nil
        if envelope.writer == writer {
            give(
                envelope.number, isNew ? .success(position) : .failure(.notApplied("it came too late")), &step.effects)
            // After the answer, because a wait that has one no longer shows that the log is silent.
            heard(of: position, &step.effects)
        }
        reached(&step.effects)
        catchUp(&step)
        // Only for an action: otherwise each objection would bring a new checksum, and other nodes would forget the one
        // that the next objection is about.
        step.isCheckDue = envelope.action != nil && ledger.count.isMultiple(of: checkEvery)
        if ledger.count.isMultiple(of: snapshotEvery) {
            // Only the node that has written the entry saves the snapshot: not one that has taken over its writer.
            if envelope.writer == writer && envelope.number >= first { step.saves = lastDue }
            lastDue = position
        }
        return step
    }

    /// Continues from a snapshot or from the initial state; returns nil if the replica has stopped or was closed.
    mutating func loaded(_ ledger: FluxReplicaLedger) -> FluxReplicaStep? {
        if isOver { return nil }
        var step = FluxReplicaStep()
        (self.ledger, isLoaded, checks, lastDue) = (ledger, true, [], ledger.position)
        step.effects.tellsStatus = true
        // A node that starts over from a snapshot at a check needs this checksum to find out which node was right.
        step.isCheckDue = ledger.count > 0 && ledger.count.isMultiple(of: checkEvery)
        for number in waits.keys.sorted() where isUnderWay(number) {
            switch ledger.hasApplied(number, of: writer, base: waits[number]!.base) {
            case true?: give(number, .success(ledger.position), &step.effects)
            case false?: break
            case nil: give(number, .failure(.unconfirmed("a snapshot replaced the entries")), &step.effects)
            }
        }
        read(upTo: ledger.position, &step.effects)
        reached(&step.effects)
        catchUp(&step)
        return step
    }

    /// Ends the waits for positions that are reached.
    private mutating func reached(_ effects: inout FluxReplicaEffects) {
        let position = ledger.position
        for (id, goal) in goals where goal <= position {
            give(id, .success(position), &effects)
            goals[id] = nil
        }
    }

    /// Handles the end of a reading; no entries come until the log is read again.
    mutating func readingEnded(_ error: any Swift.Error, _ effects: inout FluxReplicaEffects) {
        defer { isReading = false }
        switch error {
        // A replica that has already read these entries needs no snapshot, which would only take it back. And only a
        // reading says which entries are gone, not the loading of a snapshot before it.
        case FluxSharedLogError.trimmed(let position) where isReading && position > ledger.position:
            // A snapshot has to replace the entries.
            (isLoaded, trimmed) = (false, Swift.max(trimmed, position))
            effects.tellsStatus = true
        case is FluxReplicaDivergence: break
        default:
            if isOver { return }
            if case FluxSharedLogError.unavailable(let reason) = error { unread = reason } else { unread = "\(error)" }
            probe(&effects)
        }
    }

    // MARK: - Checksums

    /// Records the checksum of this node's present state.
    mutating func checked(_ sum: UInt64, _ effects: inout FluxReplicaEffects) {
        checks.append(FluxReplicaCheck(count: ledger.count, version: version, sum: sum))
        // A few are enough: other nodes send theirs with their next entry, and a late comparison is of no use.
        if checks.count > 8 { checks.removeFirst() }
        (checksumFailure, effects.tellsStatus) = (nil, true)
    }

    /// Records that the checksum that is due could not be computed.
    mutating func notChecked(_ failure: String, _ effects: inout FluxReplicaEffects) {
        (checksumFailure, effects.tellsStatus) = (failure, true)
    }

    /// Returns this node's checksum if another node's differs from it; nil if they are equal or cannot be compared.
    private func differing(_ check: FluxReplicaCheck) -> UInt64? {
        if check.count <= settled || check.version != version { return nil }
        return checks.first { $0.count == check.count && $0.sum != check.sum }?.sum
    }

    /// Makes this node start over, since the snapshot and the entries after it define the correct state.
    private mutating func diverge(_ divergence: FluxReplicaDivergence, _ step: inout FluxReplicaStep) {
        (refusal, isLoaded, settled) = (.diverged(divergence), false, divergence.count)
        step.diverges = divergence
        step.effects.tellsStatus = true
        for (id, wait) in waits where wait.kind == .read { give(id, .failure(.diverged(divergence)), &step.effects) }
    }

    /// Makes a diverged node serve again, once it has read the entry that showed the divergence.
    private mutating func catchUp(_ step: inout FluxReplicaStep) {
        guard case .diverged(let divergence)? = refusal, ledger.position >= divergence.position else { return }
        refusal = nil
        step.effects.tellsStatus = true
        // If the log has led to the same checksum again, the other node is wrong. It cannot notice that unless another
        // node appends an entry with a checksum, so this node does.
        if let again = checks.first(where: { $0.count == divergence.count }), again.sum != divergence.other {
            step.objection = FluxReplicaEnvelope(writer: writer, number: next, floor: floor, base: ledger.count)
            step.objection?.check = again
            next += 1
        }
    }

    // MARK: - Whether the log answers

    /// Records that the log does not answer.
    mutating func unavailable(_ reason: String, _ effects: inout FluxReplicaEffects) {
        if isOver { return }
        silence = reason
        probe(&effects)
    }

    private mutating func probe(_ effects: inout FluxReplicaEffects) {
        effects.tellsStatus = true
        if !isProbing { (isProbing, effects.probes) = (true, true) }
    }

    /// Handles the answer to a probe; returns false if the log is still silent or unread, and has to be probed again.
    mutating func probed(
        _ answer: Swift.Result<UInt64, FluxSharedLogError>, _ effects: inout FluxReplicaEffects
    ) -> Bool {
        if case .success(let position) = answer { heard(of: position, &effects) }
        isProbing = !isOver && (silence ?? unread) != nil
        return !isProbing
    }

    /// Records that the log has answered, and reaches at least to a position.
    mutating func heard(of position: UInt64, _ effects: inout FluxReplicaEffects) {
        end = Swift.max(end, position)
        // The log can be read if it delivers an entry, or if a reading has begun and there is no newer entry.
        let isReadAgain = unread != nil && isReading && isLoaded && lag == 0
        if silence == nil && !isReadAgain { return }
        // Only an entry shows that the log accepts entries: while a failed dispatch still waits, its reason stays.
        silence = waits.values.first { $0.kind == .dispatch && $0.answer == nil && $0.reason != nil }?.reason
        if isReadAgain { unread = nil }
        effects.tellsStatus = true
    }

    // MARK: - Snapshots

    /// Returns whether a snapshot may be saved now; only one save runs at a time, and others are skipped meanwhile.
    ///
    /// The status reports a skipped save, because a save may never return and no timeout would notice that.
    mutating func beginSaving(_ effects: inout FluxReplicaEffects) -> Bool {
        if isSaving { (snapshotFailure, effects.tellsStatus) = ("the previous snapshot is still being saved", true) }
        return !Swift.exchange(&isSaving, with: true) && !isOver
    }

    mutating func saved(_ failure: String?, _ effects: inout FluxReplicaEffects) {
        (isSaving, snapshotFailure) = (false, failure)
        effects.tellsStatus = true
    }

    // MARK: - Reuse of writers

    /// Continues as the writer of a closed replica of the same log, if there is one; no caller waits yet.
    ///
    /// Entries of the closed replica that are still under way are applied before those of this one or never, because
    /// their numbers are below the floor.
    ///
    /// - Parameter closed: The writers of closed replicas of all logs, each with its next number.
    mutating func takeOver(from closed: inout [UInt64: UInt64]) {
        guard let old = ledger.writers.keys.first(where: { closed[$0] != nil }) else { return }
        (writer, next) = (old, Swift.max(closed.removeValue(forKey: old)!, next))
        (floor, first) = (next, next)
    }

    /// Leaves the writer to the next replica; called once, after the end.
    func handOver(to closed: inout [UInt64: UInt64]) {
        // Bounds the memory. Each of their logs then gets one more writer.
        if closed.count >= 65_536 { closed = [:] }
        if ledger.writers[writer] != nil { closed[writer] = next }
    }

    // MARK: - The end

    /// Stops the replica before an entry or a snapshot that it does not know.
    mutating func stopped(_ stop: FluxReplicaStop, _ effects: inout FluxReplicaEffects) {
        if !isOver { end(.stopped(stop), "the replica has stopped: \(stop)", &effects) }
    }

    mutating func closed(_ effects: inout FluxReplicaEffects) {
        end(.closed, "the replica was closed", &effects)
    }

    private mutating func end(_ error: FluxReplicaError, _ reason: String, _ effects: inout FluxReplicaEffects) {
        refusal = error
        effects.tellsStatus = true
        for (id, wait) in waits {
            give(id, .failure(wait.kind == .dispatch ? .unconfirmed(reason) : error), &effects)
        }
    }
}

/// The work to do once the lock is free.
nonisolated struct FluxReplicaEffects {
    /// The latches of the waits that have their answer.
    var opens: [FluxLatch] = []
    /// Whether the status may have changed.
    var tellsStatus = false
    /// Whether to begin probing the log, until it answers and is read.
    var probes = false
}

/// The consequences of an entry or of a snapshot.
nonisolated struct FluxReplicaStep {
    /// Whether the action of the entry is applied.
    var applies = false
    /// Set if the state differs from another node's: the entry is not applied yet, and a snapshot is loaded first.
    var diverges: FluxReplicaDivergence?
    var isCheckDue = false
    /// Set if this node has to save a snapshot: the position up to which the log may be trimmed afterwards.
    var saves: UInt64?
    /// An entry to append, from which another node can see that it is wrong.
    var objection: FluxReplicaEnvelope?
    var effects = FluxReplicaEffects()
}
