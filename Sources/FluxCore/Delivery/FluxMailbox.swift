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
/// | rule     | `put` keeps                            | a batch has                                  |
/// |----------|----------------------------------------|----------------------------------------------|
/// | `every`  | the element                            | all that is kept                             |
/// | `latest` | that there is one, and not the element | the current element, for members and joiners |
/// | `single` | the element                            | one element, so that what waits is in here   |
@usableFromInline nonisolated struct FluxMailbox<Element, Member, Waiter> {
    @usableFromInline enum Phase { case idle, scheduled, draining }
    @usableFromInline enum Rule { case every, latest, single }

    /// One who will be a member from the next batch on, the number of the newest element that it must not get, and what it gets
    /// before anything else: by the rule `latest` that is filled in with the batch.
    @usableFromInline
    typealias Joiner = (id: UInt64, member: Member, start: UInt64, startsWithCurrent: Bool, snapshot: Element?)

    /// What the drain is told with the next batch.
    @usableFromInline enum Note {
        case leave(id: UInt64)
        /// The waiter is to be told once the element of a number, and all before it, wait no longer.
        case wait(Waiter, id: UInt64, number: UInt64)
    }

    /// What a drain works on outside the lock, and gives back for the next.
    @usableFromInline struct Batch {
        /// What is to be delivered, oldest first; the drain takes one after the other out, and gives the buffer back.
        @usableFromInline var elements: ContiguousArray<Element?> = []
        /// The number of the first element.
        @usableFromInline var first: UInt64 = 0
        /// All members, those of ``joined`` last and in the same order.
        @usableFromInline var members = FluxList<Member>()
        @usableFromInline var joined: ContiguousArray<Joiner> = []
        /// Those who wait for everything up to the end of this batch.
        @usableFromInline var waiters: ContiguousArray<Waiter> = []
        /// Those who are members no longer, to be let go of outside the lock.
        @usableFromInline var gone: ContiguousArray<Member> = []
        @usableFromInline var isConflated = false

        @inlinable init() {}
    }

    @usableFromInline var pending: ContiguousArray<Element?> = []
    /// The empty buffer that `pending` is swapped for, while no drain has it.
    @usableFromInline var spare: ContiguousArray<Element?> = []
    /// Those who join with the next batch, in the order of their ids.
    @usableFromInline var joining: ContiguousArray<Joiner> = []
    @usableFromInline var notes: ContiguousArray<Note> = []
    /// The members, while no drain has them.
    @usableFromInline var members = FluxList<Member>()
    /// How many have joined and not left, wherever they are.
    @usableFromInline var audience: UInt32 = 0
    /// By the rule `single`, the position of the first of the elements that wait; before it are empty places.
    @usableFromInline var head: UInt32 = 0
    @usableFromInline var phase = Phase.idle
    @usableFromInline var isEnded = false
    @usableFromInline let rule: Rule
    /// By the rule `latest`, whether there is an element that the members have not got.
    @usableFromInline var isMarked = false

    @inlinable init(_ rule: Rule = .every) { self.rule = rule }

    /// True when the mailbox can be dropped: nobody is left to deliver to, and no drain has its members.
    @inlinable var isAbandoned: Bool { audience == 0 && phase != .draining }

    /// How many elements wait.
    @inlinable var waiting: Int { pending.count - Int(head) }

    /// Those whom nobody will tell if the mailbox is dropped.
    @inlinable var waiters: ContiguousArray<Waiter> {
        ContiguousArray(notes.lazy.compactMap { if case .wait(let waiter, _, _) = $0 { waiter } else { nil } })
    }

    // MARK: - Inputs of the owner

    /// Keeps an element for delivery; true: schedule a drain.
    @inlinable @inline(__always) mutating func put(_ element: consuming Element) -> Bool {
        guard audience > 0 else { return false }
        if rule == .latest { isMarked = true } else { pending.append(element) }
        return schedule()
    }

    /// Takes out the oldest of the elements that wait, by the rule `single`, amortised in constant time.
    @inlinable mutating func popFirst() -> Element? {
        if waiting == 0 { return nil }
        let element = fluxTake(&pending[Int(head)])
        head += 1
        if Int(head) == pending.count {
            pending.removeAll(keepingCapacity: pending.capacity <= FluxLimits.keptCapacity)
            head = 0
        } else if head >= 16 && Int(head) * 2 >= pending.count {
            pending.removeFirst(Int(head))
            head = 0
        }
        return element
    }

    /// Adds a member that gets what comes after the element numbered `start`; true: schedule a drain.
    @inlinable mutating func join(_ member: Member, id: UInt64, start: UInt64, snapshot: Element?) -> Bool {
        audience += 1
        if phase == .idle && snapshot == nil && !isEnded {
            members.insert(member, id: id)
            return false
        }
        joining.append((id, member, start, snapshot != nil, rule == .latest ? nil : snapshot))
        return schedule()
    }

    /// Removes one who joined, once for each.
    ///
    /// - Parameters:
    ///   - id: That of the member.
    ///   - gone: Gets what is to be let go of outside the lock.
    /// - Returns: The member, unless a drain has that.
    @inlinable mutating func leave(id: UInt64, _ gone: inout [Any]) -> Member? {
        audience -= 1
        if audience == 0 {
            if !pending.isEmpty { gone.append(pending) }
            (pending, head, isMarked) = ([], 0, false)
        }
        if let position = fluxBisect(joining.count, for: id, { joining[$0].id }) {
            gone.append(joining[position].snapshot as Any)
            return joining.remove(at: position).member
        }
        if phase != .draining { return members.remove(id: id) }
        notes.append(.leave(id: id))
        return nil
    }

    /// Adds somebody who waits until all that is due has been delivered; false: nothing is.
    @inlinable mutating func wait(_ waiter: Waiter, id: UInt64, newest: UInt64) -> Bool {
        if phase == .idle { return false }
        notes.append(.wait(waiter, id: id, number: newest))
        return true
    }

    /// Removes one who waits no longer.
    @inlinable mutating func withdraw(_ id: UInt64) {
        notes.removeAll { if case .wait(_, id, _) = $0 { true } else { false } }
    }

    /// Ends all memberships after what is due; returns the members that can be let go of now.
    @inlinable mutating func end() -> ContiguousArray<Member> {
        isEnded = true
        if phase != .idle { return [] }
        audience = 0
        return members.removeAll()
    }

    // MARK: - Inputs of the drain

    /// Hands the members and the spare buffer to the drain that was scheduled.
    @inlinable mutating func begin(_ batch: inout Batch) {
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
    @inlinable mutating func exchange(_ batch: inout Batch, newest: UInt64, current: Element? = nil) -> Bool {
        batch.members.compact()
        purge(&batch)
        swap(&joining, &batch.joined)
        for joiner in batch.joined { batch.members.insert(joiner.member, id: joiner.id) }
        if !notes.isEmpty { takeWaiters(&batch, newest: newest) }
        if pending.isEmpty && !isMarked && batch.joined.isEmpty && batch.waiters.isEmpty {
            rest(&batch)
            return false
        }
        if batch.elements.capacity > FluxLimits.keptCapacity { batch.elements = [] }
        switch rule {
        case .every:
            swap(&pending, &batch.elements)
            batch.first = newest &+ 1 &- UInt64(batch.elements.count)
        case .latest:
            for index in batch.joined.indices where batch.joined[index].startsWithCurrent {
                (batch.joined[index].snapshot, batch.joined[index].start) = (current, newest)
            }
            if isMarked { batch.elements.append(current) }
            (isMarked, batch.first) = (false, newest)
        case .single:
            batch.first = newest &+ 1 &- UInt64(waiting)
            if let element = popFirst() { batch.elements.append(element) }
        }
        return true
    }

    /// Moves those who left while the drain had them to `gone`; the others keep their positions.
    @inlinable mutating func purge(_ batch: inout Batch) {
        notes.removeAll { note in
            guard case .leave(let id) = note else { return false }
            if let member = batch.members.remove(id: id, compacting: false) { batch.gone.append(member) }
            return true
        }
    }

    /// Whether a drain would find something to do.
    @inlinable var isDue: Bool { !pending.isEmpty || isMarked || !joining.isEmpty || !notes.isEmpty }

    /// Gives a drain that stops between two batches its place back, so that another can begin.
    @inlinable mutating func pause(_ batch: inout Batch) {
        purge(&batch)
        swap(&members, &batch.members)
        if batch.elements.capacity <= FluxLimits.keptCapacity { swap(&spare, &batch.elements) }
        phase = .scheduled
    }

    // MARK: - Support

    /// Hands out those who wait for nothing that comes after the next batch.
    @inlinable mutating func takeWaiters(_ batch: inout Batch, newest: UInt64) {
        let left = rule == .single ? UInt64(max(waiting - 1, 0)) : 0
        notes.removeAll { note in
            guard case .wait(let waiter, _, let number) = note, number <= newest &- left else { return false }
            batch.waiters.append(waiter)
            return true
        }
    }

    @inlinable mutating func rest(_ batch: inout Batch) {
        if isEnded {
            audience = 0
            batch.gone.append(contentsOf: batch.members.removeAll())
        }
        pause(&batch)
        phase = .idle
    }

    @inlinable @inline(__always) mutating func schedule() -> Bool {
        if phase != .idle { return false }
        phase = .scheduled
        return true
    }
}
