/// What waits for the subscriptions of a store on one queue: the pure state machine behind their delivery.
///
/// It is *idle* (nothing is due), *scheduled* (something is, and a drain will run) or *draining* (a drain is at work, with a
/// copy of the list of members). Every input says what to do outside the lock; nothing in here calls, waits or schedules.
///
/// | input        | idle                              | scheduled                            | draining                            |
/// | ------------ | --------------------------------- | ------------------------------------ | ----------------------------------- |
/// | `put`        | kept; schedule a drain            | kept                                 | kept                                |
/// | `join`       | at once; with a snapshot: a drain | with the next batch                  | with the next batch                 |
/// | `leave`      | given back                        | given back                           | given back by the next step         |
/// | `wait`       | nothing to wait for               | with the next batch                  | with the next batch                 |
/// | … for a call | no call is under way              | no call is under way                 | with the next batch                 |
/// | `step`       | idle again                        | the first batch; idle if none is due | the next batch; idle if none is due |
/// | … to pause   | never                             | never                                | scheduled; idle if none is due      |
/// | `end`        | taken out                         | after what is due                    | after what is due                   |
///
/// When the last member leaves, what is pending goes too, and `put` keeps nothing until another joins. A member gets the states
/// whose revision is higher than that at which it joined. A mailbox that conflates keeps no state, but a mark that there is a
/// newer one: the drain reads it.
@usableFromInline nonisolated struct FluxMailbox<State: FluxState> {
    /// Retained from its joining on until it is let go of: a copy of the list for a drain retains none.
    @usableFromInline typealias Member = Unmanaged<FluxSubscriber<State>>

    /// One who is called with the state at which it joined, before anything else; if the mailbox conflates, with that of the batch.
    @usableFromInline typealias Starter = (member: FluxSubscriber<State>, state: State?)

    /// What a drain works on outside the lock, or what else is taken out under the lock to be let go of outside.
    @usableFromInline struct Batch {
        @usableFromInline var starters: ContiguousArray<Starter> = []
        /// What is to be delivered, oldest first; the drain takes one after the other out, and gives the buffer back.
        @usableFromInline var states: ContiguousArray<State?> = []
        /// The revision of the first state.
        @usableFromInline var first: UInt64 = 0
        /// Whether it is of more than one change: then there are more to come soon.
        @usableFromInline var isBurst = false
        @usableFromInline var members = FluxList<Member>()
        /// Those who wait for everything up to the end of this batch.
        @usableFromInline var waiters: [ObjectIdentifier: FluxLatch] = [:]
        /// Those who are members no longer, to be let go of outside the lock.
        @usableFromInline var gone: ContiguousArray<Member> = []

        @inlinable init() {}

        /// Lets go of those who are members no longer.
        @inlinable mutating func retire() {
            for member in gone { member.takeRetainedValue().retire() }
            gone = []
        }

        /// Lets those go on who wait.
        @inlinable mutating func open() {
            for latch in waiters.values { latch.open() }
            waiters = [:]
        }
    }

    /// How it comes to its delivery, which that of the store's own queue makes with its first change: most stores are quiet.
    @usableFromInline enum Way { case plain(FluxStoreHandle<State>), made(FluxStateDelivery<State>) }

    /// The id of the mailbox of the store's own queue that keeps each state.
    @inlinable static var plain: UInt64 { 2 }

    @usableFromInline var way: Way
    @inlinable var made: FluxStateDelivery<State>? { if case .made(let delivery) = way { delivery } else { nil } }
    /// Where a drain has them too, a change copies the list.
    @usableFromInline var members = FluxList<Member>()
    /// Behind the list, whose last word it shares.
    @usableFromInline var phase = FluxDrainPhase.idle
    /// How many states there are that the members have not got, in a mailbox that conflates; 2 stands for any more, which are a burst.
    @usableFromInline var marks: UInt8 = 0
    @usableFromInline let isConflated: Bool
    @usableFromInline var starters: ContiguousArray<Starter> = []
    @usableFromInline var pending: ContiguousArray<State?> = []
    @usableFromInline var waiters: [ObjectIdentifier: FluxLatch] = [:]
    /// Those who left while a drain had them.
    @usableFromInline var gone: ContiguousArray<Member> = []

    @inlinable init(_ way: Way, isConflated: Bool) { (self.way, self.isConflated) = (way, isConflated) }

    /// True when the mailbox can be dropped: nobody is left to deliver to, and no drain has its members.
    @inlinable var isAbandoned: Bool { members.isEmpty && phase != .draining }

    // MARK: - Inputs of the store

    /// Keeps a state for delivery; hands out what is to schedule a drain.
    @inlinable @inline(__always) mutating func put(_ state: inout State) -> FluxStateDelivery<State>? {
        if members.isEmpty { return nil }
        if isConflated { marks = Swift.min(marks + 1, 2) } else { pending.append(state) }
        return schedule()
    }

    /// Adds a member; hands out what is to schedule a drain.
    @inlinable mutating func join(_ member: FluxSubscriber<State>, with state: State?) -> FluxStateDelivery<State>? {
        members.insert(.passRetained(member), id: member.id)
        guard let state else { return nil }
        starters.append((member, isConflated ? nil : state))
        return schedule()
    }

    /// Removes a member.
    ///
    /// - Parameters:
    ///   - id: That of the member.
    ///   - rest: Gets what is to be let go of outside the lock.
    @inlinable mutating func leave(_ id: UInt64, _ rest: inout Batch) {
        guard let member = members.remove(id: id) else { return }
        if let position = fluxBisect(starters.count, for: id, { starters[$0].member.id }) {
            rest.starters.append(starters[position])
            starters[position].state = nil
            // It stays until such are the most: to close each gap would move all that stand behind it.
            if starters.count > 2 * Int(members.filled) { starters.removeAll { $0.state == nil && !$0.member.takes() } }
        }
        if members.isEmpty { (rest.states, pending, marks) = (pending, [], 0) }
        if phase == .draining { gone.append(member) } else { rest.gone.append(member) }
    }

    /// Adds somebody who waits until all that is due has been delivered, or until no call is under way; false: that is so.
    @inlinable mutating func wait(_ latch: FluxLatch, forCall: Bool) -> Bool {
        if phase == .idle || forCall && phase != .draining { return false }
        waiters[ObjectIdentifier(latch)] = latch
        return true
    }

    /// Lets go of the members and of those who wait, outside the lock: it has been taken out.
    @inlinable mutating func letGo() {
        members.updateEach { $0.takeRetainedValue().retire() }
        for latch in waiters.values { latch.open() }
    }

    // MARK: - Inputs of the drain

    /// Takes a drain one step on, as ``FluxMailboxes/step(_:_:isPause:current:)`` says: takes back a spent batch and hands out the next
    /// one, or stops before that; idle from here on where nothing is due.
    ///
    /// - Parameters:
    ///   - batch: The last batch, without what was in it.
    ///   - isPause: Whether the drain stops here, so that another can begin.
    ///   - newest: The revision of the newest state.
    ///   - current: The newest state; only asked for if the mailbox conflates.
    ///   - isEnded: Whether the memberships end after what is due.
    /// - Returns: Whether the batch has something to deliver, or, of a pause, will have.
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
            // Those who joined before the newest state get that with all others.
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
        return made
    }
}
