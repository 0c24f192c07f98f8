#if canImport(FluxCore)
    import FluxCore
#endif

/// What is held back until the load has ended, what is to be written then, one write at a time, and who waits for what:
/// a pure state machine.
///
/// Everything that was applied has a number. A write covers all numbers up to one; what fails is written again, with what
/// came in the meantime. With a log the actions are kept until a write that covers them is done.
///
/// | input     | loading           | idle                           | writing                          | closed  |
/// |-----------|-------------------|--------------------------------|----------------------------------|---------|
/// | `hold`    | held back         | refused: apply it now          | refused                          | refused |
/// | `letGo`   | put off to `open` | at once: gone                  | at once; gone if none is due     | at once |
/// | `end`     | idle, or closed   | never                          | never                            | never   |
/// | `note`    | nothing           | start a writer; closed if gone | with the next write              | nothing |
/// | `begin`   | never             | never                          | the next write; idle if none due | nothing |
/// | `succeed` | never             | never                          | all that it covered is written   | never   |
/// | `fail`    | never             | never                          | all that it covered is due again | never   |
/// | `close`   | never             | never                          | closed: it never will be         | never   |
///
/// What was held back is applied between `end` and `open`.
///
/// | wait for   | before `open` | idle                | writing             | closed   |
/// |------------|---------------|---------------------|---------------------|----------|
/// | the load   | has to        | need not            | need not            | need not |
/// | the writes | if any is due | need not            | has to              | need not |
/// | an attempt | if any is due | need not            | until one failed    | need not |
/// | room       | has to        | while there is none | while there is none | need not |
@usableFromInline
nonisolated struct FluxStorageMachine<Change, Action, Waiter> {
    @usableFromInline typealias Step = FluxPersistenceFailure.Operation

    /// With no log only the newest state counts, and no action is kept.
    @usableFromInline let isLog: Bool
    /// How many actions may be unwritten before those who wait for room have to.
    @usableFromInline let capacity: Int
    /// How many actions the log gets before a snapshot takes their place.
    @usableFromInline let compactEvery: UInt64

    /// How the load ended.
    @usableFromInline var restoration = FluxRestoration.loading
    /// All that was held back has been applied.
    @usableFromInline var isReady = false
    /// Nothing is written, for good: the log could not be read, or an error cannot be cured.
    @usableFromInline var isClosed = false
    /// Whether the store was let go with nothing due: its log is another's from here on.
    @usableFromInline var hasGone = false
    var held: ContiguousArray<Change> = []
    /// Ends the store, where that was let go during the load.
    var finish: (@Sendable () -> Void)?

    /// The number of what was applied last.
    @usableFromInline var last: UInt64 = 0
    /// All up to this number has been written.
    @usableFromInline var done: UInt64 = 0
    /// The actions after those that are being written.
    @usableFromInline var pending: ContiguousArray<Action> = []
    /// The actions that are being written; those of an `append` have the numbers after `done`, without a gap.
    @usableFromInline var batch: ContiguousArray<Action> = []
    @usableFromInline var batchEnd: UInt64 = 0
    @usableFromInline var step = Step.save
    /// From this number on actions are counted until a snapshot is due; nil: one is due.
    @usableFromInline var compacted: UInt64?
    /// Up to this number only a snapshot will do: there is a change among them that is no action.
    @usableFromInline var unlogged: UInt64 = 0
    @usableFromInline var attempt = 0
    /// What the last attempt failed with; nil once one has succeeded.
    @usableFromInline var error: (any Swift.Error)?
    @usableFromInline var isWriting = false

    /// Those who wait, each with the number of what was noted last when the wait began.
    ///
    /// For each need in the order in which they came, which is the one in which they get it. Slices, since many may wait
    /// while each write tells a few.
    @usableFromInline var waiters = ContiguousArray(
        repeating: ArraySlice<(id: UInt64, number: UInt64, waiter: Waiter)>(), count: FluxStorageNeed.allCases.count)
    /// Those among them who have given up.
    @usableFromInline var withdrawn: Swift.Set<UInt64> = []
    @usableFromInline var lastID: UInt64 = 0
    /// How many were given room for an action that has not been noted yet.
    @usableFromInline var granted = 0

    @inlinable
    init(isLog: Bool = false, capacity: Int = .max, compactEvery: UInt64 = .max) {
        (self.isLog, self.capacity, self.compactEvery) = (isLog, capacity, compactEvery)
    }

    @inlinable var isLoading: Bool { if case .loading = restoration { true } else { false } }
    /// Whether something was applied, or will be with the end of the load, that is still to be written.
    var isDue: Bool { isReady ? isWriting : !isLoading || !held.isEmpty }

    // MARK: - Inputs of the load

    /// Holds a change back; false: it is to be applied now.
    mutating func hold(_ change: Change) -> Bool {
        if isLoading { held.append(change) }
        return isLoading
    }

    /// The store was let go; true: it ends only with the load.
    mutating func letGo(_ finish: @escaping @Sendable () -> Void) -> Bool {
        if isLoading { self.finish = finish }
        hasGone = isReady && done == last
        return isLoading
    }

    /// Ends the load; what was held back is to be applied then, in order, and `open` called.
    ///
    /// - Parameters:
    ///   - restoration: How it has ended.
    ///   - number: The number of the last action in a log; nil: what is stored could not be read.
    ///   - snapshot: The number of its snapshot; nil: it has none, so that the first write is one.
    ///   - closes: Whether nothing can be written either.
    ///   - isUncounted: Whether the state was announced under a revision that the log does not lead to.
    /// - Returns: What was held back.
    mutating func end(
        _ restoration: FluxRestoration, number: UInt64?, snapshot: UInt64?, closes: Bool = false,
        isUncounted: Bool = false
    ) -> ContiguousArray<Change> {
        self.restoration = restoration
        isClosed = closes || isLog && number == nil
        (last, done) = (number ?? 0, number ?? 0)
        compacted = snapshot
        // No append will do before that: what is acknowledged by it would have a lower revision after the next start.
        if isUncounted { unlogged = last + 1 }
        return Swift.exchange(&held, with: [])
    }

    /// All that was held back has been applied; whom to tell, and what to call, outside the lock.
    mutating func open() -> (told: ContiguousArray<Waiter>, finish: (@Sendable () -> Void)?) {
        isReady = true
        // It keeps who looks on at the store, and so whoever has this machine.
        return (settle(), Swift.exchange(&finish, with: nil))
    }

    // MARK: - Inputs of the store

    /// Notes what was applied; true: start a writer.
    ///
    /// - Parameters:
    ///   - action: The action; nil: a change that is none, which a log can take only with a snapshot.
    ///   - isAnnounced: A change that nobody was told of can wait to be saved with the next; a log has every action.
    /// - Returns: Whether to start one.
    @inlinable
    mutating func note(_ action: Action?, isAnnounced: Bool = true) -> Bool {
        if isLoading || !(isAnnounced || isLog) { return false }
        // What comes once the store has gone is saved by nobody, and who asks is told.
        if hasGone { isClosed = true }
        if isClosed { return false }
        last += 1
        if isLog, let action { pending.append(action) } else { unlogged = last }
        return !Swift.exchange(&isWriting, with: true)
    }

    // MARK: - Inputs of those who wait

    /// Adds somebody who waits, and is told by `settle`; nil: there is nothing to wait for.
    @inlinable
    mutating func wait(for need: FluxStorageNeed, _ waiter: Waiter) -> UInt64? {
        if grants(need, last) { return nil }
        lastID += 1
        waiters[need.rawValue].append((lastID, last, waiter))
        return lastID
    }

    /// Removes one who waits no longer; false: it has been told.
    ///
    /// - Parameters:
    ///   - id: What `wait` returned.
    ///   - need: What it waited for.
    /// - Returns: Whether it was still waiting.
    /// - Complexity: O(1), amortised.
    @inlinable
    mutating func withdraw(_ id: UInt64, from need: FluxStorageNeed) -> Bool {
        // They are told in the order of their ids.
        guard let first = waiters[need.rawValue].first, first.id <= id else { return false }
        withdrawn.insert(id)
        // All at once, when they are half of all: one by one each would move those behind it.
        if 2 * withdrawn.count >= waiters.reduce(0, { $0 + $1.count }) {
            for need in waiters.indices { waiters[need].removeAll { [withdrawn] in withdrawn.contains($0.id) } }
            withdrawn = []
        }
        return true
    }

    /// Removes those who have what they wait for; they are to be told outside the lock.
    @inlinable
    mutating func settle() -> ContiguousArray<Waiter> {
        var told: ContiguousArray<Waiter> = []
        for need in FluxStorageNeed.allCases {
            while let first = waiters[need.rawValue].first {
                let isWithdrawn = !withdrawn.isEmpty && withdrawn.remove(first.id) != nil
                guard isWithdrawn || grants(need, first.number) else { break }
                waiters[need.rawValue].removeFirst()
                if !isWithdrawn { told.append(first.waiter) }
            }
            // A slice keeps those that were taken from it until it is another.
            if waiters[need.rawValue].isEmpty { waiters[need.rawValue] = [] }
        }
        return told
    }

    // MARK: - Inputs of the writer

    /// Begins the next write; nil, and idle from here on, where nothing is due.
    ///
    /// - Returns: What to write: the `batch`, or the state that has all up to `batchEnd`.
    @inlinable
    mutating func begin() -> Step? {
        isWriting = done != last && !isClosed
        if !isWriting { return nil }
        swap(&batch, &pending)
        batchEnd = last
        let isSnapshotDue = compacted.map { last - $0 >= compactEvery } ?? true
        step = !isLog ? .save : isSnapshotDue || done < unlogged ? .compact : .append
        return step
    }

    /// Notes that the write is done; returns its actions and what had failed before, to be let go of outside the lock.
    @inlinable
    mutating func succeed() -> (actions: ContiguousArray<Action>, error: (any Swift.Error)?) {
        done = batchEnd
        if step == .compact { compacted = done }
        defer { (batch, attempt, error) = ([], 0, nil) }
        return (batch, error)
    }

    /// Notes that the write failed; returns how many have in a row, and the error before, to be let go of outside the lock.
    @inlinable
    mutating func fail(_ error: any Swift.Error) -> (attempt: Int, before: (any Swift.Error)?) {
        let before = self.error
        (pending, batch) = (batch + pending, [])
        attempt += 1
        self.error = error
        // What could not be compacted is appended, so that those who wait for it need not wait for that too.
        if step == .compact { compacted = last }
        // And there may be an action that the log can never take: a snapshot has what that did, and holds up nobody.
        if step == .append && attempt > 1 { compacted = nil }
        return (attempt, before)
    }

    /// Writes nothing any more, after a write that failed.
    ///
    /// - Returns: Whom to tell, and what to let go of outside the lock.
    mutating func close(
        _ error: any Swift.Error
    ) -> (told: ContiguousArray<Waiter>, gone: (ContiguousArray<Action>, FluxRestoration)) {
        let gone = (pending, restoration)
        (isClosed, restoration, pending) = (true, .failed(error), [])
        return (settle(), gone)
    }

    // MARK: - Support

    /// What keeps all up to a number from being written; nil: they are, or no attempt has failed.
    func failure(upTo number: UInt64) -> (any Swift.Error)? {
        if isClosed, error == nil, case .failed(let failure) = restoration { return failure }
        if isClosed { return error ?? FluxDurabilityError.logNotRead(restoration) }
        return done >= number ? nil : error
    }

    /// Whether somebody has what they need from here on; room is kept for them.
    @inlinable
    mutating func grants(_ need: FluxStorageNeed, _ number: UInt64) -> Bool {
        switch need {
        case .load: return isReady
        case .writes: return done >= number || isClosed
        case .attempt: return done >= number || isClosed || error != nil
        case .room:
            let isRoom = isReady && (isClosed || batch.count + pending.count + granted < capacity)
            if isRoom { granted += 1 }
            return isRoom
        }
    }
}

/// What one may wait for.
@usableFromInline
nonisolated enum FluxStorageNeed: Int, CaseIterable {
    /// The end of the load.
    case load
    /// The write of all that was noted so far.
    case writes
    /// That, or an attempt that fails.
    case attempt
    /// Room for one more action, which is then kept until the action has been noted: `granted`.
    case room
}
