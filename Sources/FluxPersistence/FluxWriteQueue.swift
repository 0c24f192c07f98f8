#if canImport(FluxCore)
    import FluxCore
#endif

/// What is to be written, one write at a time, and who waits for it: a pure state machine.
///
/// Everything that was applied has a number. A write covers all numbers up to one; what fails is written again, with what
/// came in the meantime. With a log the actions are kept until a write that covers them is done.
///
/// | input      | idle                       | writing                          |
/// |------------|----------------------------|----------------------------------|
/// | `note`     | start a writer             | with the next write              |
/// | `begin`    | never                      | the next write; idle if none due |
/// | `succeed`  | never                      | tells those it covered           |
/// | `fail`     | never                      | all of it is due again           |
/// | `admit`    | while there is room        | while there is room              |
@usableFromInline
nonisolated struct FluxWriteQueue<Action, Waiter> {
    @usableFromInline typealias Step = FluxPersistenceFailure.Operation

    /// With no log only the newest state counts, and no action is kept.
    @usableFromInline let isLog: Bool
    /// How many actions may be unwritten before `admit` refuses.
    @usableFromInline let capacity: Int
    /// How many actions the log gets before a snapshot takes their place.
    @usableFromInline let compactEvery: UInt64

    /// The number of what was applied last.
    @usableFromInline var last: UInt64 = 0
    /// All up to this number has been written.
    @usableFromInline var done: UInt64 = 0
    /// The actions after those that are being written.
    @usableFromInline var pending: ContiguousArray<Action> = []
    /// The actions that are being written.
    @usableFromInline var batch: ContiguousArray<Action> = []
    @usableFromInline var batchEnd: UInt64 = 0
    @usableFromInline var step = Step.save
    @usableFromInline var compactAt: UInt64 = 0
    /// Up to this number only a snapshot will do: there is a change among them that is no action.
    @usableFromInline var unlogged: UInt64 = 0
    @usableFromInline var attempt = 0
    @usableFromInline var isWriting = false
    @usableFromInline var isClosed = false
    @usableFromInline var lastID: UInt64 = 0
    @usableFromInline var waiters = FluxList<(number: UInt64, waiter: Waiter)>()
    @usableFromInline var queue = FluxList<(id: UInt64, waiter: Waiter)>()
    @usableFromInline var granted: Set<UInt64> = []

    init(isLog: Bool = false, capacity: Int = .max, compactEvery: UInt64 = .max) {
        (self.isLog, self.capacity, self.compactEvery) = (isLog, capacity, compactEvery)
    }

    /// Goes on where a log has ended.
    ///
    /// - Parameters:
    ///   - number: The number of its last action.
    ///   - snapshot: The number of its snapshot; nil: it has none, so that the first write is one.
    mutating func resume(at number: UInt64, snapshot: UInt64?) {
        (last, done) = (number, number)
        compactAt = snapshot.map(snapshotDue) ?? 0
    }

    /// Writes nothing, for good: what is stored could not be read.
    mutating func close() {
        isClosed = true
    }

    // MARK: - Inputs of the store

    /// Notes what was applied; true: start a writer.
    ///
    /// - Parameter action: The action; nil: a change that is none, which a log can take only with a snapshot.
    /// - Returns: Whether to start one.
    @inlinable
    mutating func note(_ action: Action?) -> Bool {
        if isClosed { return false }
        last += 1
        if let action {
            if isLog { pending.append(action) }
        } else {
            unlogged = last
        }
        if isWriting { return false }
        isWriting = true
        return true
    }

    /// Whether there is room for an action that may wait; false: the waiter is told once there is.
    ///
    /// Nobody overtakes those who wait already: room comes up in `succeed` alone, and is given to them first.
    @inlinable
    mutating func admit(_ waiter: Waiter) -> UInt64? {
        if room > 0 { return nil }
        lastID += 1
        queue.insert((lastID, waiter), id: lastID)
        return lastID
    }

    /// Takes the room that one who waited was given; false: it was given none, and waits no longer.
    @inlinable
    mutating func redeem(_ id: UInt64) -> Bool {
        if granted.remove(id) != nil { return true }
        _ = queue.remove(id: id)
        return false
    }

    /// Adds somebody who waits until all that was noted is written; nil: it is.
    @inlinable
    mutating func wait(_ waiter: Waiter) -> UInt64? {
        if isClosed || done == last { return nil }
        lastID += 1
        waiters.insert((last, waiter), id: lastID)
        return lastID
    }

    /// Removes one who waits for a write no longer.
    @inlinable
    mutating func withdraw(_ id: UInt64) {
        _ = waiters.remove(id: id)
    }

    // MARK: - Inputs of the writer

    /// Whether the next write needs the state as well.
    @inlinable var needsState: Bool { !isLog || last >= compactAt || done < unlogged }

    /// Begins the next write; nil, and idle from here on, where nothing is due.
    ///
    /// - Parameter hasState: Whether the writer has the state at hand, so that it can be compacted.
    /// - Returns: What to write.
    @inlinable
    mutating func begin(hasState: Bool) -> Step? {
        if done == last {
            isWriting = false
            return nil
        }
        swap(&batch, &pending)
        batchEnd = last
        step = !isLog ? .save : hasState && needsState ? .compact : .append
        return step
    }

    /// The actions of the write that has begun, and the number of the last.
    ///
    /// Those of an `append` have the numbers up to that, without a gap.
    @inlinable var entries: (last: UInt64, actions: ContiguousArray<Action>) { (batchEnd, batch) }

    /// Notes that the write is done; what that settles is to be let go of, and told, outside the lock.
    @inlinable
    mutating func succeed() -> (actions: ContiguousArray<Action>, waiters: ContiguousArray<Waiter>) {
        let actions = batch
        batch = []
        done = batchEnd
        attempt = 0
        if step == .compact { compactAt = snapshotDue(after: done) }
        var told = ContiguousArray(waiters.removeAll { $0.number <= done }.map(\.waiter))
        grant(to: &told)
        return (actions, told)
    }

    /// Notes that the write failed, and returns the how manieth time in a row.
    @inlinable
    mutating func fail() -> Int {
        (pending, batch) = (batch + pending, [])
        attempt += 1
        // What could not be compacted is appended, so that those who wait for it need not wait for that too.
        if step == .compact { compactAt = snapshotDue(after: last) }
        // And there may be an action that the log can never take: a snapshot has what that did, and holds up nobody.
        if step == .append && attempt > 1 { compactAt = done }
        return attempt
    }

    // MARK: - Support

    @inlinable var room: Int { capacity - batch.count - pending.count - granted.count }

    @inlinable
    func snapshotDue(after number: UInt64) -> UInt64 {
        compactEvery > .max - number ? .max : number + compactEvery
    }

    @inlinable
    mutating func grant(to told: inout ContiguousArray<Waiter>) {
        var room = room
        guard room > 0, !queue.isEmpty else { return }
        let admitted = queue.removeAll { _ in
            room -= 1
            return room >= 0
        }
        for (id, waiter) in admitted {
            granted.insert(id)
            told.append(waiter)
        }
    }
}
