/// What waits to be delivered on one queue: the pure state machine behind every delivery.
///
/// It is *idle* (nothing is due), *scheduled* (something is, and a drain will run) or *draining* (a drain is at work and
/// has the members with it; otherwise they are at home). Every input says what to do outside the lock; nothing in here
/// calls, waits or schedules.
///
/// | input      | idle                              | scheduled           | draining                               |
/// |------------|-----------------------------------|---------------------|----------------------------------------|
/// | `put`      | kept; schedule a drain            | kept                | kept                                   |
/// | `join`     | at once; with a snapshot: a drain | with the next batch | with the next batch                    |
/// | `leave`    | given back                        | given back          | given back by the next exchange, purge |
/// | `wait`     | nothing to wait for               | with the next batch | with the next batch                    |
/// | `begin`    | never                             | draining            | never                                  |
/// | `exchange` | never                             | never               | the next batch; idle where none is due |
/// | `pause`    | never                             | never               | scheduled                              |
/// | `end`      | all are given back                | after what is due   | after what is due                      |
///
/// When the last member leaves, what is pending goes too, and `put` keeps nothing until another joins. Elements are
/// numbered without a gap, so only the newest number is needed and the others follow.
///
/// What `put` keeps depends on the rule:
///
/// | rule      | `put` keeps                                 | a batch has                                    |
/// |-----------|---------------------------------------------|------------------------------------------------|
/// | `every`   | the element                                 | all that is kept                               |
/// | `latest`  | that there is one, and not the element      | the current element, for members and joiners   |
/// | `bounded` | the element, while there is room; see bound | one element, so that what waits is in here     |
@usableFromInline
nonisolated struct FluxMailbox<Element, Member, Waiter> {
    @usableFromInline enum Phase { case idle, scheduled, draining }
    @usableFromInline
    enum Rule {
        case every, latest, bounded

        @inlinable
        init(_ delivery: FluxDelivery.Kind, bound: FluxBound?) {
            self = if bound != nil { .bounded } else if case .latest = delivery { .latest } else { .every }
        }
    }

    @usableFromInline var pending: ContiguousArray<Element?> = []
    /// The empty buffer that `pending` is swapped for, while no drain has it.
    @usableFromInline var spare: ContiguousArray<Element?> = []
    /// Those who join with the next batch, in the order of their ids.
    @usableFromInline var joining: ContiguousArray<Joiner> = []
    @usableFromInline var notes: ContiguousArray<Note> = []
    /// The members, while no drain has them.
    @usableFromInline var members = FluxSlots<Member>()
    /// How many have joined and not left, wherever they are.
    @usableFromInline var audience: UInt32 = 0
    @usableFromInline var phase = Phase.idle
    @usableFromInline var isEnded = false
    @usableFromInline let rule: Rule
    /// By the rule `latest`, whether there is an element that the members have not got; by the rule `bounded`, whether
    /// one was left out for good.
    @usableFromInline var isMarked = false

    @inlinable var bound: FluxBound? {
        guard rule == .bounded, case .bound(let bound)? = notes.first else { return nil }
        return bound
    }

    @inlinable
    init(_ rule: Rule = .every, bound: FluxBound? = nil) {
        self.rule = rule
        if let bound { notes.append(.bound(bound)) }
    }

    /// True when the mailbox can be dropped: nobody is left to deliver to, and no drain has its members.
    @inlinable var isAbandoned: Bool { audience == 0 && phase != .draining }

    /// Those whom nobody will tell if the mailbox is dropped.
    @inlinable var waiters: ContiguousArray<Waiter> {
        ContiguousArray(notes.lazy.compactMap { if case .wait(let waiter, _) = $0 { waiter } else { nil } })
    }

    // MARK: - Inputs of the store

    /// Keeps an element for delivery; true: schedule a drain.
    @inlinable @inline(__always)
    mutating func put(_ element: consuming Element) -> Bool {
        guard audience > 0 else { return false }
        if rule == .every { pending.append(element) } else { keep(element) }
        return schedule()
    }

    /// Adds a member that gets what comes after the element numbered `start`; true: schedule a drain.
    @inlinable
    mutating func join(_ member: Member, id: UInt64, start: UInt64, snapshot: Element?) -> Bool {
        audience += 1
        let startsWithCurrent = snapshot != nil
        if phase == .idle && !startsWithCurrent && !isEnded {
            members.insert(member, id: id)
            return false
        }
        joining.append(
            Joiner(
                id: id, member: member, start: start, startsWithCurrent: startsWithCurrent,
                snapshot: rule == .latest ? nil : snapshot))
        return schedule()
    }

    /// Removes one who joined; must be called once for each.
    @inlinable
    mutating func leave(id: UInt64) -> Departure {
        var departure = Departure()
        audience -= 1
        if audience == 0 {
            bound?.passAll(pending.count)
            swap(&pending, &departure.elements)
            isMarked = false
        }
        if let joiner = removeJoiner(id) {
            departure.member = joiner.member
            departure.snapshot = joiner.snapshot
        } else if phase == .draining {
            notes.append(.leave(id: id))
        } else {
            departure.member = members.remove(id: id)
        }
        return departure
    }

    /// Adds somebody who waits until all that is due has been delivered; false: nothing is.
    @inlinable
    mutating func wait(_ waiter: Waiter) -> Bool {
        if phase == .idle { return false }
        notes.append(.wait(waiter, passed: bound.map { $0.passed + pending.count - $0.head } ?? 0))
        return true
    }

    /// Ends all memberships after what is due; returns the members that can be let go of now.
    @inlinable
    mutating func end() -> ContiguousArray<Member> {
        isEnded = true
        if phase != .idle { return [] }
        audience = 0
        return members.removeAll()
    }

    // MARK: - Inputs of the drain

    /// Hands the members and the spare buffer to the drain that was scheduled.
    @inlinable
    mutating func begin(_ batch: inout Batch) {
        batch.isConflated = rule == .latest
        swap(&members, &batch.members)
        swap(&spare, &batch.elements)
        phase = .draining
    }

    /// Takes back a spent batch and hands out the next one; false, and idle from here on, where nothing is due.
    ///
    /// - Parameters:
    ///   - batch: The last batch, without its elements, joined, waiters and gone.
    ///   - newest: The number of the newest element.
    ///   - current: The newest element; only asked for by the rule `latest`.
    /// - Returns: Whether the batch has something to deliver.
    @inlinable
    mutating func exchange(_ batch: inout Batch, newest: UInt64, current: Element? = nil) -> Bool {
        batch.members.compact()
        purge(&batch)
        swap(&joining, &batch.joined)
        for joiner in batch.joined { batch.members.insert(joiner.member, id: joiner.id) }
        if !notes.isEmpty { takeWaiters(&batch) }
        if pending.isEmpty && !isMarked && batch.joined.isEmpty && batch.waiters.isEmpty {
            rest(&batch)
            return false
        }
        if batch.elements.capacity > FluxLimits.keptCapacity { batch.elements = [] }
        switch rule {
        case .every:
            swap(&pending, &batch.elements)
            batch.first = newest &+ 1 &- UInt64(batch.elements.count)
        case .latest: conflate(&batch, newest: newest, current: current)
        case .bounded: takeFirst(&batch, newest: newest)
        }
        return true
    }

    /// Hands out those who wait for nothing that comes after this batch.
    @inlinable
    mutating func takeWaiters(_ batch: inout Batch) {
        let passed = bound.map { $0.passed + min(1, pending.count) } ?? 0
        var kept: ContiguousArray<Note> = []
        for note in notes {
            if case .wait(let waiter, let due) = note, due <= passed {
                batch.waiters.append(waiter)
            } else {
                kept.append(note)
            }
        }
        notes = kept
    }

    /// Moves those who left while the drain had them to `gone`; the others keep their positions.
    @inlinable
    mutating func purge(_ batch: inout Batch) {
        notes.removeAll { note in
            guard case .leave(let id) = note else { return false }
            if let member = batch.members.remove(id: id, compacting: false) { batch.gone.append(member) }
            return true
        }
    }

    /// Whether a drain would find something to do.
    @inlinable var isDue: Bool {
        !pending.isEmpty || isMarked || !joining.isEmpty || notes.count > (rule == .bounded ? 1 : 0)
    }

    /// Gives a drain that stops between two batches its place back, so that another can begin.
    @inlinable
    mutating func pause(_ batch: inout Batch) {
        purge(&batch)
        swap(&members, &batch.members)
        if batch.elements.capacity <= FluxLimits.keptCapacity { swap(&spare, &batch.elements) }
        phase = .scheduled
    }

    // MARK: - Support

    @inlinable
    mutating func rest(_ batch: inout Batch) {
        if isEnded {
            audience = 0
            batch.gone.append(contentsOf: batch.members.removeAll())
        }
        pause(&batch)
        phase = .idle
    }

    @inlinable @inline(__always)
    mutating func schedule() -> Bool {
        if phase != .idle { return false }
        phase = .scheduled
        return true
    }

    /// Takes out one who has joined and is no member yet, found by bisection.
    @inlinable
    mutating func removeJoiner(_ id: UInt64) -> Joiner? {
        fluxBisect(joining.count, for: id) { joining[$0].id }.map { joining.remove(at: $0) }
    }
}
