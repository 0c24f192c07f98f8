/// The pending states for a store's subscriptions on one queue: the pure state machine behind their delivery.
///
/// It is *idle* (nothing is pending), *scheduled* (something is pending, and a drain will run) or *draining* (a drain
/// is running, with a copy of the member list). Every input returns the work to do outside the lock; nothing in here
/// calls, waits or schedules.
///
/// | input        | idle                              | scheduled                    | draining                     |
/// | ------------ | --------------------------------- | ---------------------------- | ---------------------------- |
/// | `put`        | kept; schedule a drain            | kept                         | kept                         |
/// | `join`       | at once; with a snapshot: a drain | with the next batch          | with the next batch          |
/// | `leave`      | released                          | released                     | released by the next step    |
/// | `wait`       | nothing to wait for               | until the next batch ends    | until the next batch ends    |
/// | … for a call | no call is running                | no call is running           | until the next batch ends    |
/// | `step`       | stays idle                        | the first batch, or idle     | the next batch, or idle      |
/// | … to pause   | never                             | never                        | scheduled, or idle           |
/// | `end`        | removed                           | after the pending deliveries | after the pending deliveries |
///
/// A `step` leads to idle if nothing is pending. When the last member leaves, the pending states are dropped too,
/// and `put` keeps nothing until another member joins. A member receives the states whose revision is higher than
/// the one at which it joined. A mailbox that conflates keeps no state, only a mark that there is a newer one;
/// the drain reads that state.
@usableFromInline nonisolated struct FluxMailbox<State: FluxState> {
    /// A member, retained from its joining until its release; the copy of the list for a drain retains none.
    @usableFromInline typealias Member = Unmanaged<FluxSubscriber<State>>

    /// A member to call first, with the state at which it joined or, if the mailbox conflates,
    /// with the state of the batch.
    @usableFromInline typealias Starter = (member: FluxSubscriber<State>, state: State?)

    /// The work of a drain outside the lock; it also carries objects out of the lock to be released.
    @usableFromInline struct Batch {
        @usableFromInline var starters: ContiguousArray<Starter> = []
        /// The states to deliver, oldest first; the drain takes them out one by one, and returns the buffer.
        @usableFromInline var states: ContiguousArray<State?> = []
        /// The revision of the first state.
        @usableFromInline var first: UInt64 = 0
        /// Whether it holds more than one change; more are likely to follow then.
        @usableFromInline var isBurst = false
        @usableFromInline var members = FluxList<Member>()
        /// The latches to open at the end of this batch.
        @usableFromInline var waiters: [ObjectIdentifier: FluxLatch] = [:]
        /// Former members, to be released outside the lock.
        @usableFromInline var gone: ContiguousArray<Member> = []

        @inlinable init() {}

        /// Releases the former members.
        @inlinable mutating func retire() {
            for member in gone { member.takeRetainedValue().retire() }
            gone = []
        }

        /// Opens the latches.
        @inlinable mutating func open() {
            for latch in waiters.values { latch.open() }
            waiters = [:]
        }
    }

    /// How it reaches its delivery; for the store's own queue that is created with the first drain,
    /// as most stores are quiet.
    @usableFromInline enum Way { case plain(FluxStoreHandle<State>), made(FluxStateDelivery<State>) }

    /// The id of the mailbox for `.every` on the store's own queue.
    @inlinable static var plain: UInt64 { 2 }

    @usableFromInline var way: Way
    @inlinable var delivery: FluxStateDelivery<State>? { if case .made(let delivery) = way { delivery } else { nil } }
    /// The members; a change copies the list while a drain has it too.
    @usableFromInline var members = FluxList<Member>()
    /// The phase; declared after the list, whose last word it shares.
    @usableFromInline var phase = FluxDrainPhase.idle
    /// How many states are not delivered yet, in a mailbox that conflates; 2 stands for two or more, a burst.
    @usableFromInline var marks: UInt8 = 0
    @usableFromInline let isConflated: Bool
    @usableFromInline var starters: ContiguousArray<Starter> = []
    @usableFromInline var pending: ContiguousArray<State?> = []
    @usableFromInline var waiters: [ObjectIdentifier: FluxLatch] = [:]
    /// Members that left while a drain had the list.
    @usableFromInline var gone: ContiguousArray<Member> = []

    @inlinable init(_ way: Way, isConflated: Bool) { (self.way, self.isConflated) = (way, isConflated) }

    /// Whether the mailbox can be dropped: it has no members, and no drain is running.
    @inlinable var isAbandoned: Bool { members.isEmpty && phase != .draining }

    // MARK: - Inputs of the store

    /// Keeps a state for delivery; returns the delivery that must schedule a drain, if any.
    @inlinable @inline(__always) mutating func put(_ state: inout State) -> FluxStateDelivery<State>? {
        if members.isEmpty { return nil }
        if isConflated { marks = Swift.min(marks + 1, 2) } else { pending.append(state) }
        return schedule()
    }

    /// Adds a member; returns the delivery that must schedule a drain, if any.
    @inlinable mutating func join(_ member: FluxSubscriber<State>, with state: State?) -> FluxStateDelivery<State>? {
        members.insert(.passRetained(member), id: member.id)
        guard let state else { return nil }
        starters.append((member, isConflated ? nil : state))
        return schedule()
    }

    /// Removes a member.
    ///
    /// - Parameters:
    ///   - id: The id of the member.
    ///   - rest: Receives the objects to release outside the lock.
    @inlinable mutating func leave(_ id: UInt64, _ rest: inout Batch) {
        guard let member = members.remove(id: id) else { return }
        if let position = fluxBisect(starters.count, for: id, { starters[$0].member.id }) {
            rest.starters.append(starters[position])
            starters[position].state = nil
            // The entry stays until most are empty: closing each gap would move all entries behind it.
            if starters.count > 2 * Int(members.filled) { starters.removeAll { $0.state == nil && !$0.member.takes() } }
        }
        if members.isEmpty { (rest.states, pending, marks) = (pending, [], 0) }
        if phase == .draining { gone.append(member) } else { rest.gone.append(member) }
    }

    /// Adds a latch that opens once everything pending is delivered, or once no call is running;
    /// false if that is so already.
    @inlinable mutating func wait(_ latch: FluxLatch, forCall: Bool) -> Bool {
        if phase == .idle || forCall && phase != .draining { return false }
        waiters[ObjectIdentifier(latch)] = latch
        return true
    }

    /// Releases the members and opens the latches; called outside the lock, after the mailbox has been removed.
    @inlinable mutating func close() {
        members.updateEach { $0.takeRetainedValue().retire() }
        for latch in waiters.values { latch.open() }
    }

    // MARK: - Inputs of the drain

    /// Advances a drain by one step: takes back the delivered batch, and fills it with the next one
    /// unless the drain pauses.
    ///
    /// If nothing is pending, the mailbox is idle from here on. See ``FluxMailboxes/step(_:_:isPause:current:)``.
    ///
    /// - Parameters:
    ///   - batch: The last batch, emptied.
    ///   - isPause: Whether the drain stops here, so that another can begin.
    ///   - newest: The revision of the newest state.
    ///   - current: The newest state; needed only if the mailbox conflates.
    ///   - isEnded: Whether the memberships end after the pending deliveries.
    /// - Returns: Whether the batch has something to deliver or, for a pause, whether something is pending.
    @inlinable mutating func step(
        _ batch: inout Batch, isPause: Bool, newest: UInt64, current: State?, isEnded: Bool
    ) -> Bool {
        swap(&gone, &batch.gone)
        if batch.states.capacity > FluxLimits.keptCapacity(State?.self) { batch.states = [] }
        let isDue = isDue
        if isPause || !isDue {
            batch.members = FluxList()
            if pending.capacity == 0 { swap(&pending, &batch.states) }
            phase = isDue ? .scheduled : .idle
            if isEnded && !isDue { batch.gone += members.removeAll { _ in true }.pairs().map(\.element) }
            return isDue
        }
        phase = .draining
        swap(&pending, &batch.states)
        swap(&starters, &batch.starters)
        swap(&waiters, &batch.waiters)
        batch.members = members
        if isConflated {
            // Members that joined before the newest state receive it together with all others.
            batch.starters.removeAll { $0.member.takes(newest) }
            for index in batch.starters.indices { batch.starters[index].state = current }
            if marks > 0 { batch.states.append(current) }
        }
        batch.isBurst = marks > 1 || batch.states.count > 1
        marks = 0
        batch.first = newest &+ 1 &- UInt64(batch.states.count)
        return true
    }

    /// Whether a drain would find something to do.
    @inlinable var isDue: Bool { !pending.isEmpty || marks > 0 || !starters.isEmpty || !waiters.isEmpty }

    @inlinable @inline(__always) mutating func schedule() -> FluxStateDelivery<State>? {
        if phase != .idle { return nil }
        phase = .scheduled
        if case .plain(let handle) = way { way = .made(FluxStateDelivery(handle, id: Self.plain, queue: nil)) }
        return delivery
    }
}

/// Whether a mailbox has something pending, and whether its drain is scheduled or running.
@usableFromInline nonisolated enum FluxDrainPhase { case idle, scheduled, draining }
