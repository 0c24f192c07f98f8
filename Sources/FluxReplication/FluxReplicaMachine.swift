#if canImport(FluxCore)
    import FluxCore
#endif

/// What a replica decides: a pure state machine.
///
/// | input                  | what follows                                                                              |
/// |------------------------|-------------------------------------------------------------------------------------------|
/// | `dispatch`, `read`     | somebody waits under a number; or why not: stopped, closed, diverged                      |
/// | `answered`             | an action waits to be read from the log, a read for the position that is the end; or again |
/// | `expired`, `finish`    | who waits is let out; his number counts as given up: below the floor, or named while an older one waits |
/// | `receive`              | apply or pass over; who waited for it is let out; a checksum or a snapshot is due; or diverged |
/// | `loaded`               | goes on from a snapshot; who waited for what is in it is let out                          |
/// | `readingEnded`         | it cannot be read, until something is; or entries are gone, so that a snapshot is needed   |
/// | `takeOver`, `handOver` | the numbers go on behind those of a closed replica of this process; or are left to the next |
/// | `stopped`, `closed`    | everybody is let out, nothing follows any more                                            |
nonisolated struct FluxReplicaMachine {
    typealias Answer = Swift.Result<UInt64, FluxReplicaError>

    /// Somebody who waits: for an action of his to be read from the log, or for a position.
    struct Wait {
        enum Kind { case dispatch, read, join }

        let latch: FluxLatch
        let kind: Kind
        /// How many entries there were when it began.
        let base: UInt64
        /// What the log has said, if it has not done it; the action may have got into it all the same.
        var reason: String?
        var answer: Answer?

        /// What it is told where nothing is known.
        func unknown(_ reason: String) -> FluxReplicaError {
            kind == .dispatch ? .unconfirmed(reason) : .unavailable(reason)
        }
    }

    /// Tells the entries of this replica from those of all others.
    private(set) var writer: UInt64
    /// The version that the states of this program are encoded as.
    private let version: Int
    private let checkEvery: UInt64
    private let snapshotEvery: UInt64

    private(set) var ledger = FluxReplicaLedger()
    /// Why it serves nobody: it has diverged, has stopped or was closed; nil: it serves.
    private var refusal: FluxReplicaError?
    /// Whether the next entry follows what is there, and no snapshot has to be loaded first.
    private(set) var isLoaded = false
    /// The snapshot that is needed has at least this position.
    private(set) var trimmed: UInt64 = 0
    /// The highest position that was heard of.
    private var end: UInt64 = 0
    /// Why the log does not answer who asks; nil: it does, as far as is known.
    private var silence: String?
    /// Why it could not be read last; nil: it is read, as far as is known.
    private var unread: String?
    private var isReading = false
    private var isProbing = false
    private var isSaving = false
    private var snapshotFailure: String?

    /// The next number, of an action or of somebody who reads.
    private var next: UInt64 = 1
    /// No action with a lower number waits.
    private var floor: UInt64 = 1
    /// The actions above the floor that nobody waits for any more, though they may be in the log: they are too late for it now.
    private var givenUp: [UInt64] = []
    private(set) var waits: [UInt64: Wait] = [:]
    /// The positions that are waited for, by the number of who does.
    private var goals: [UInt64: UInt64] = [:]

    /// What this node has had for checksums, the newest last.
    private var checks: [FluxReplicaCheck] = []
    private var checksumFailure: String?
    /// After how many entries the checksum was that this node has told last.
    private var told: UInt64 = 0
    /// What other nodes have up to here has been looked into by reading the log again.
    private var settled: UInt64 = 0
    /// Where the last snapshot was due.
    private var lastDue: UInt64 = 0

    init(writer: UInt64, version: Int, checkEvery: Int, snapshotEvery: Int) {
        (self.writer, self.version) = (writer, version)
        (self.checkEvery, self.snapshotEvery) = (UInt64(checkEvery), UInt64(snapshotEvery))
    }

    // MARK: - What is known

    var position: UInt64 { ledger.position }
    var lag: UInt64 { end > position ? end - position : 0 }

    /// Whether it reads no more.
    var isOver: Bool {
        switch refusal {
        case .stopped?, .closed?: true
        default: false
        }
    }

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

    // MARK: - Who waits

    /// Somebody dispatches an action.
    ///
    /// - Returns: What goes to the log around the action, and what opens once there is an answer.
    mutating func dispatch() -> Swift.Result<(envelope: FluxReplicaEnvelope, latch: FluxLatch), FluxReplicaError> {
        if let refusal { return .failure(refusal) }
        while floor < next, !isUnderWay(floor) { floor += 1 }
        givenUp.removeAll { $0 < floor }
        // Each entry names them.
        if givenUp.count >= 1_000 { return .failure(.notApplied("1000 are unconfirmed behind one that still waits")) }
        let (number, latch) = wait(.dispatch)
        var envelope = FluxReplicaEnvelope(
            writer: writer, number: number, floor: floor, base: ledger.count, givenUp: givenUp)
        if let newest = checks.last, newest.count > told { (envelope.check, told) = (newest, newest.count) }
        return .success((envelope, latch))
    }

    /// Somebody wants to read what is new; who joins waits also while the node starts over.
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

    /// The log has answered: with the position of an action, or with its end, or not.
    ///
    /// - Returns: Whether it is to be asked again.
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
            let isNever = wait.kind == .dispatch && wait.reason == nil
            give(id, .failure(isNever ? .notApplied("\(error)") : wait.unknown("\(error)")), &effects)
            return false
        }
    }

    /// The time of somebody is up.
    mutating func expired(_ id: UInt64, _ duration: Swift.Duration, _ effects: inout FluxReplicaEffects) {
        guard let wait = waits[id] else { return }
        let last = (wait.reason ?? unread).map { "; the log said last: \($0)" } ?? ""
        give(id, .failure(wait.unknown("nothing within \(duration)\(last)")), &effects)
    }

    /// Somebody goes, with an answer, or without one because his task was cancelled.
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

    // MARK: - What comes from the log

    /// The log is about to be read, from the position on that is there.
    mutating func readingBegins() { isReading = true }

    /// The newest of the entries that have come is at a position.
    mutating func read(upTo position: UInt64, _ effects: inout FluxReplicaEffects) {
        if unread != nil { (unread, effects.tellsStatus) = (nil, true) }
        heard(of: position, &effects)
    }

    /// Takes the next entry; nil: none is to come.
    mutating func receive(_ position: UInt64, _ envelope: FluxReplicaEnvelope) -> FluxReplicaStep? {
        guard isLoaded, !isOver else { return nil }
        var step = FluxReplicaStep()
        // A log that was asked again may repeat itself.
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
            // Who has been let out does not speak for the log any more.
            heard(of: position, &step.effects)
        }
        reached(&step.effects)
        catchUp(&step)
        // Only of an action: each objection would have others forget the checksum that the next is about.
        step.isCheckDue = envelope.action != nil && ledger.count.isMultiple(of: checkEvery)
        if ledger.count.isMultiple(of: snapshotEvery) {
            // Of all nodes one does it: the one that has written the entry.
            if envelope.writer == writer { step.saves = lastDue }
            lastDue = position
        }
        return step
    }

    /// Goes on from a snapshot, or from nothing; nil: it goes on no more.
    mutating func loaded(_ ledger: FluxReplicaLedger) -> FluxReplicaStep? {
        if isOver { return nil }
        var step = FluxReplicaStep()
        (self.ledger, isLoaded, checks, lastDue) = (ledger, true, [], ledger.position)
        step.effects.tellsStatus = true
        // Who starts over from a snapshot that was saved there has to know which of two was right.
        step.isCheckDue = ledger.count > 0 && ledger.count.isMultiple(of: checkEvery)
        for number in waits.keys.sorted() where isUnderWay(number) {
            switch ledger.hasApplied(number, of: writer, base: waits[number]!.base) {
            case true?: give(number, .success(ledger.position), &step.effects)
            case false?: break
            case nil: give(number, .failure(.unconfirmed("a snapshot took the place of the entries")), &step.effects)
            }
        }
        read(upTo: ledger.position, &step.effects)
        reached(&step.effects)
        catchUp(&step)
        return step
    }

    /// Lets out who has waited for a position.
    private mutating func reached(_ effects: inout FluxReplicaEffects) {
        let position = ledger.position
        for (id, goal) in goals where goal <= position {
            give(id, .success(position), &effects)
            goals[id] = nil
        }
    }

    /// Nothing comes from the log any more, until it is read again.
    mutating func readingEnded(_ error: any Swift.Error, _ effects: inout FluxReplicaEffects) {
        isReading = false
        switch error {
        // One that is not behind needs none of them, and would only go back.
        case FluxSharedLogError.trimmed(let position) where position > ledger.position:
            // A snapshot takes the place of the entries.
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

    /// This node has a checksum of what it has now.
    mutating func checked(_ sum: UInt64, _ effects: inout FluxReplicaEffects) {
        checks.append(FluxReplicaCheck(count: ledger.count, version: version, sum: sum))
        // Others tell theirs with their next entry, which comes soon or is of no use.
        if checks.count > 8 { checks.removeFirst() }
        (checksumFailure, effects.tellsStatus) = (nil, true)
    }

    /// The checksum that is due now cannot be taken.
    mutating func notChecked(_ failure: String, _ effects: inout FluxReplicaEffects) {
        (checksumFailure, effects.tellsStatus) = (failure, true)
    }

    /// What this node has had where another had something else; nil: the same, or not to be compared.
    private func differing(_ check: FluxReplicaCheck) -> UInt64? {
        if check.count <= settled || check.version != version { return nil }
        return checks.first { $0.count == check.count && $0.sum != check.sum }?.sum
    }

    /// What is right is the snapshot and the entries after it, so this node starts over from there.
    private mutating func diverge(_ divergence: FluxReplicaDivergence, _ step: inout FluxReplicaStep) {
        (refusal, isLoaded, settled) = (.diverged(divergence), false, divergence.count)
        step.diverges = divergence
        step.effects.tellsStatus = true
        for (id, wait) in waits where wait.kind == .read { give(id, .failure(.diverged(divergence)), &step.effects) }
    }

    /// Serves again once all is applied that was applied when it diverged.
    private mutating func catchUp(_ step: inout FluxReplicaStep) {
        guard case .diverged(let divergence)? = refusal, ledger.position >= divergence.position else { return }
        refusal = nil
        step.effects.tellsStatus = true
        // Has the log led to the same once more, the other node is wrong. It may not know, if nobody else writes: so this one does.
        if let again = checks.first(where: { $0.count == divergence.count }), again.sum != divergence.other {
            step.objection = FluxReplicaEnvelope(writer: writer, number: next, floor: floor, base: ledger.count)
            step.objection?.check = again
            next += 1
        }
    }

    // MARK: - Whether the log answers

    /// The log does not answer.
    mutating func unavailable(_ reason: String, _ effects: inout FluxReplicaEffects) {
        if isOver { return }
        silence = reason
        probe(&effects)
    }

    private mutating func probe(_ effects: inout FluxReplicaEffects) {
        effects.tellsStatus = true
        if !isProbing { (isProbing, effects.probes) = (true, true) }
    }

    /// The log was asked for its end, to know whether it is back; false: it is to be asked again, as it does not answer or is not read.
    mutating func probed(
        _ answer: Swift.Result<UInt64, FluxSharedLogError>, _ effects: inout FluxReplicaEffects
    ) -> Bool {
        if case .success(let position) = answer { heard(of: position, &effects) }
        isProbing = !isOver && (silence ?? unread) != nil
        return !isProbing
    }

    /// The log has answered, and there is an entry at a position.
    mutating func heard(of position: UInt64, _ effects: inout FluxReplicaEffects) {
        end = Swift.max(end, position)
        // That the log can be read only an entry shows, or that none is to come while it is being read.
        let isReadAgain = unread != nil && isReading && isLoaded && lag == 0
        if silence == nil && !isReadAgain { return }
        // That it takes entries only an entry shows.
        silence = waits.values.first { $0.kind == .dispatch && $0.answer == nil && $0.reason != nil }?.reason
        if isReadAgain { unread = nil }
        effects.tellsStatus = true
    }

    // MARK: - Snapshots

    /// Whether a snapshot may be saved now: there is one save at a time, and what is due meanwhile is left to the next.
    ///
    /// That is said, for a save may never return, and no clock is here to tell.
    mutating func beginSaving(_ effects: inout FluxReplicaEffects) -> Bool {
        if isSaving { (snapshotFailure, effects.tellsStatus) = ("the one before it is still being saved", true) }
        return !Swift.exchange(&isSaving, with: true) && !isOver
    }

    mutating func saved(_ failure: String?, _ effects: inout FluxReplicaEffects) {
        (isSaving, snapshotFailure) = (false, failure)
        effects.tellsStatus = true
    }

    // MARK: - One replica after the other

    /// Goes on as the writer of a closed replica of the same log, if there is one; nobody waits yet.
    ///
    /// What is still under way of the other is applied before what this one sends, or never: its numbers are below the floor.
    ///
    /// - Parameter closed: The writers of closed replicas, whatever their logs are, each with its next number.
    mutating func takeOver(from closed: inout [UInt64: UInt64]) {
        guard let old = ledger.writers.keys.first(where: { closed[$0] != nil }) else { return }
        (writer, next) = (old, Swift.max(closed.removeValue(forKey: old)!, next))
        floor = next
    }

    /// Leaves its writer to the next replica; once, and after the end.
    func handOver(to closed: inout [UInt64: UInt64]) {
        // The memory for them is bounded: each of their logs gets one more writer then.
        if closed.count >= 65_536 { closed = [:] }
        if ledger.writers[writer] != nil { closed[writer] = next }
    }

    // MARK: - The end

    /// It goes no further than it is.
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

/// What is to be done once the lock is free.
nonisolated struct FluxReplicaEffects {
    /// Those who are let out.
    var opens: [FluxLatch] = []
    /// Whether the status may be another.
    var tellsStatus = false
    /// Whether the log is to be asked for its end until it answers.
    var probes = false
}

/// What follows from an entry or from a snapshot.
nonisolated struct FluxReplicaStep {
    /// Whether the action of the entry is applied.
    var applies = false
    /// If the state is not that of another node: the entry waits, and a snapshot is loaded first.
    var diverges: FluxReplicaDivergence?
    var isCheckDue = false
    /// If this node is to save a snapshot: up to where the log may be trimmed then.
    var saves: UInt64?
    /// What is appended for another node to see that it is wrong.
    var objection: FluxReplicaEnvelope?
    var effects = FluxReplicaEffects()
}
