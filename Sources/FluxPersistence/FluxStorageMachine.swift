/// A pure state machine: the changes held back until the load has ended, the pending writes, and the waiting tasks.
///
/// One write runs at a time. Every change that was noted has a number, and a write covers all numbers up to one. A
/// failed write is repeated, together with newer changes. With a log, actions are kept until a write that covers them
/// has succeeded.
///
/// | input         | loading             | idle                     | writing                          | closed  |
/// |---------------|---------------------|--------------------------|----------------------------------|---------|
/// | `hold`        | held back           | refused: apply it now    | refused                          | refused |
/// | `noteRelease` | postponed to `open` | at once: gone            | at once; gone if none is pending | at once |
/// | `end`         | idle, or closed     | never                    | never                            | never   |
/// | `note`        | ignored             | a writer; closed if gone | in the next write                | ignored |
/// | `begin`       | never               | never                    | a write; idle if none is pending | nothing |
/// | `succeed`     | never               | never                    | all that it covered is written   | never   |
/// | `fail`        | never               | never                    | what it covered is pending again | never   |
/// | `close`       | never               | never                    | closed: the rest is not written  | never   |
///
/// The held changes are applied between `end` and `open`.
///
/// | wait for   | before `open`           | idle                      | writing                   | closed  |
/// |------------|-------------------------|---------------------------|---------------------------|---------|
/// | the load   | waits                   | returns                   | returns                   | returns |
/// | the writes | waits if any is pending | returns                   | waits                     | returns |
/// | an attempt | waits if any is pending | returns                   | waits until one failed    | returns |
/// | room       | waits                   | waits while there is none | waits while there is none | returns |
@usableFromInline
nonisolated struct FluxStorageMachine<Change, Action, Waiter> {
    @usableFromInline typealias Step = FluxPersistenceFailure.Operation

    /// Whether actions are kept; without a log only the newest state counts.
    @usableFromInline let isLog: Bool
    /// How many actions may be unwritten before tasks have to wait for room.
    @usableFromInline let capacity: Int
    /// How many actions the log gets before a snapshot replaces them.
    @usableFromInline let compactEvery: UInt64

    /// How the load ended.
    @usableFromInline var restoration = FluxRestoration.loading
    /// Whether all held changes have been applied.
    @usableFromInline var isReady = false
    /// Whether nothing is ever written again: the log could not be read, an error is permanent, or a change came after
    /// the store had gone.
    @usableFromInline var isClosed = false
    /// Whether the store was released with nothing pending: its log may belong to another store from here on.
    @usableFromInline var hasGone = false
    var held: ContiguousArray<Change> = []
    /// Ends the store, if it was released during the load.
    var finish: (@Sendable () -> Void)?

    /// The number of the last applied change.
    @usableFromInline var last: UInt64 = 0
    /// All changes up to this number have been written.
    @usableFromInline var done: UInt64 = 0
    /// The actions after those that are being written.
    @usableFromInline var pending: ContiguousArray<Action> = []
    /// The actions that are being written; those of an `append` have the numbers after `done`, without a gap.
    @usableFromInline var batch: ContiguousArray<Action> = []
    @usableFromInline var batchEnd: UInt64 = 0
    @usableFromInline var step = Step.save
    /// Actions are counted from this number until a snapshot is due; nil: one is due.
    @usableFromInline var snapshotCountStart: UInt64?
    /// While `done` is below this number, the next write must be a snapshot.
    ///
    /// Either the change with this number is not an action, or `end` was told that the log leads to a lower revision.
    @usableFromInline var unlogged: UInt64 = 0
    @usableFromInline var attempt = 0
    /// The error of the last attempt; nil once one has succeeded.
    @usableFromInline var error: (any Swift.Error)?
    @usableFromInline var isWriting = false

    /// The waiting tasks, each with the number of the last change noted when its wait began.
    ///
    /// There is one list for each need, in the order of arrival, which is also the order of service. The lists are
    /// slices, because many tasks may wait while each write notifies a few.
    @usableFromInline var waiters = ContiguousArray(
        repeating: ArraySlice<(id: UInt64, number: UInt64, waiter: Waiter)>(), count: FluxStorageNeed.allCases.count)
    /// The ids of the waiting tasks that have given up.
    @usableFromInline var withdrawn: Swift.Set<UInt64> = []
    @usableFromInline var lastID: UInt64 = 0
    /// How many tasks were given room for an action that has not been noted yet.
    @usableFromInline var granted = 0

    @inlinable
    init(isLog: Bool = false, capacity: Int = .max, compactEvery: UInt64 = .max) {
        (self.isLog, self.capacity, self.compactEvery) = (isLog, capacity, compactEvery)
    }

    @inlinable var isLoading: Bool { if case .loading = restoration { true } else { false } }
    /// Whether a change that was applied, or will be at the end of the load, is still to be written.
    var isDue: Bool { isReady ? isWriting : !isLoading || !held.isEmpty }

    // MARK: - Inputs of the load

    /// Holds a change back; false: it is to be applied now.
    mutating func hold(_ change: Change) -> Bool {
        if isLoading { held.append(change) }
        return isLoading
    }

    /// Notes that the store was released; true: it ends only after the load.
    mutating func noteRelease(_ finish: @escaping @Sendable () -> Void) -> Bool {
        if isLoading { self.finish = finish }
        hasGone = isReady && done == last
        return isLoading
    }

    /// Ends the load; the caller then applies the held changes, in order, and calls `open`.
    ///
    /// - Parameters:
    ///   - restoration: How the load ended.
    ///   - number: The number of the last action in a log; nil: the stored data could not be read.
    ///   - snapshot: The number of the log's snapshot; nil: there is none, so the first write is one.
    ///   - closes: Whether nothing can be written either.
    ///   - isUncounted: Whether the state was announced with a revision that the log does not lead to.
    /// - Returns: The held changes.
    mutating func end(
        _ restoration: FluxRestoration, number: UInt64?, snapshot: UInt64?, closes: Bool = false,
        isUncounted: Bool = false
    ) -> ContiguousArray<Change> {
        self.restoration = restoration
        isClosed = closes || isLog && number == nil
        (last, done) = (number ?? 0, number ?? 0)
        snapshotCountStart = snapshot
        // A snapshot has to come first: a change acknowledged by an append would have a lower revision after a restart.
        if isUncounted { unlogged = last + 1 }
        return Swift.exchange(&held, with: [])
    }

    /// Notes that all held changes were applied; returns the tasks to notify and the function to call, outside the
    /// lock.
    mutating func open() -> (told: ContiguousArray<Waiter>, finish: (@Sendable () -> Void)?) {
        isReady = true
        // Taken out: `finish` keeps the observers of the store, and so the owner of this machine.
        return (settle(), Swift.exchange(&finish, with: nil))
    }

    // MARK: - Inputs of the store

    /// Notes an applied change; true: start a writer.
    ///
    /// - Parameters:
    ///   - action: The action; nil: the change is not an action, so a log can take it only with a snapshot.
    ///   - isAnnounced: Whether the change was announced. One that was not is saved with the next; a log has every
    ///     action.
    /// - Returns: Whether to start a writer.
    @inlinable
    mutating func note(_ action: Action?, isAnnounced: Bool = true) -> Bool {
        if isLoading || !(isAnnounced || isLog) { return false }
        // A change that is applied after the store has gone is never saved, and `failure` reports that.
        if hasGone { isClosed = true }
        if isClosed { return false }
        last += 1
        if isLog, let action { pending.append(action) } else { unlogged = last }
        return !Swift.exchange(&isWriting, with: true)
    }

    // MARK: - Inputs of waiting tasks

    /// Adds a waiting task, which `settle` returns once its need is met; nil: there is nothing to wait for.
    @inlinable
    mutating func wait(for need: FluxStorageNeed, _ waiter: Waiter) -> UInt64? {
        if grants(need, last) { return nil }
        lastID += 1
        waiters[need.rawValue].append((lastID, last, waiter))
        return lastID
    }

    /// Removes a waiting task that has given up; false: its need was met before.
    ///
    /// - Parameters:
    ///   - id: What `wait` returned.
    ///   - need: What the task waited for.
    /// - Returns: Whether it was still waiting.
    /// - Complexity: O(1), amortised.
    @inlinable
    mutating func withdraw(_ id: UInt64, from need: FluxStorageNeed) -> Bool {
        // Needs are met in the order of the ids.
        guard let first = waiters[need.rawValue].first, first.id <= id else { return false }
        withdrawn.insert(id)
        // Removed together, once they are half of all: one by one, each removal would move those behind it.
        if 2 * withdrawn.count >= waiters.reduce(0, { $0 + $1.count }) {
            for need in waiters.indices { waiters[need].removeAll { [withdrawn] in withdrawn.contains($0.id) } }
            withdrawn = []
        }
        return true
    }

    /// Removes and returns the tasks whose needs are met; the caller notifies them outside the lock.
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
            // A slice keeps the elements that were removed from it until it is replaced.
            if waiters[need.rawValue].isEmpty { waiters[need.rawValue] = [] }
        }
        return told
    }

    // MARK: - Inputs of the writer

    /// Begins the next write; nil, and idle from here on, if nothing is pending.
    ///
    /// - Returns: What to write: the `batch`, or the state with all changes up to `batchEnd`.
    @inlinable
    mutating func begin() -> Step? {
        isWriting = done != last && !isClosed
        if !isWriting { return nil }
        swap(&batch, &pending)
        batchEnd = last
        let isSnapshotDue = snapshotCountStart.map { last - $0 >= compactEvery } ?? true
        step = !isLog ? .save : isSnapshotDue || done < unlogged ? .compact : .append
        return step
    }

    /// Notes that the write succeeded; returns its actions and the error before it, to be released outside the lock.
    @inlinable
    mutating func succeed() -> (actions: ContiguousArray<Action>, error: (any Swift.Error)?) {
        done = batchEnd
        if step == .compact { snapshotCountStart = done }
        defer { (batch, attempt, error) = ([], 0, nil) }
        return (batch, error)
    }

    /// Notes that the write failed; returns the number of failures in a row and the previous error, to be released
    /// outside the lock.
    mutating func fail(_ error: any Swift.Error) -> (attempt: Int, before: (any Swift.Error)?) {
        let before = self.error
        (pending, batch) = (batch + pending, [])
        attempt += 1
        self.error = error
        // After a failed snapshot the actions are appended, so that tasks that wait for those need not wait for a
        // snapshot too.
        if step == .compact { snapshotCountStart = last }
        // After a second failure, the log may never accept one of the actions. A snapshot has the effect of that
        // action, and lets the others proceed.
        if step == .append && attempt > 1 { snapshotCountStart = nil }
        return (attempt, before)
    }

    /// Closes after a failed write: nothing is written any more.
    ///
    /// - Returns: The tasks to notify, and what to release outside the lock.
    mutating func close(
        _ error: any Swift.Error
    ) -> (told: ContiguousArray<Waiter>, gone: (ContiguousArray<Action>, FluxRestoration)) {
        let gone = (pending, restoration)
        (isClosed, restoration, pending) = (true, .failed(error), [])
        return (settle(), gone)
    }

    // MARK: - Support

    /// Returns the error that keeps the changes up to a number unwritten; nil: they are written, or no attempt failed.
    func failure(upTo number: UInt64) -> (any Swift.Error)? {
        if isClosed, error == nil, case .failed(let failure) = restoration { return failure }
        if isClosed { return error ?? FluxDurabilityError.logNotRead(restoration) }
        return done >= number ? nil : error
    }

    /// Whether a need is met for a task that began to wait at a number; room is then reserved for it.
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

/// What a task may wait for.
@usableFromInline
nonisolated enum FluxStorageNeed: Int, CaseIterable {
    /// The end of the load.
    case load
    /// The write of everything noted so far.
    case writes
    /// That write, or a failed attempt.
    case attempt
    /// Room for one more action, reserved in `granted` until the action has been noted.
    case room
}
