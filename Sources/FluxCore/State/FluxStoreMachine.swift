/// What the lock of a store guards: the state, its revision, and a mailbox per queue that is delivered to.
///
/// A pure state machine. It knows the outlets (who drain the mailboxes), the members (who are subscribed) and the
/// waiters (who flush) as opaque tokens, so that the tests drive it with integers.
@usableFromInline
nonisolated struct FluxStoreMachine<State: FluxState, Outlet, Member, Waiter> {
    @usableFromInline typealias Mailbox = FluxMailbox<State, Member, Waiter>

    @usableFromInline
    struct Entry {
        @usableFromInline let outlet: Outlet
        @usableFromInline var mailbox: Mailbox

        @inlinable
        init(outlet: Outlet, mailbox: consuming Mailbox) {
            self.outlet = outlet
            self.mailbox = mailbox
        }
    }

    /// What `leave` and `end` took out, to be let go of outside the lock.
    @usableFromInline
    struct Remains {
        @usableFromInline var entries: ContiguousArray<Entry> = []
        @usableFromInline var members: ContiguousArray<Member> = []
        @usableFromInline var states: ContiguousArray<State?> = []

        @inlinable
        init() {}
    }

    /// What came of an action.
    @usableFromInline
    struct Applied {
        /// The new revision; nil if nothing is announced.
        @usableFromInline let revision: UInt64?
        /// The outlets whose drain is to be scheduled outside the lock.
        @usableFromInline let wakes: FluxWakes<Outlet>

        @inlinable
        init(revision: UInt64?, wakes: FluxWakes<Outlet>) {
            self.revision = revision
            self.wakes = wakes
        }
    }

    @usableFromInline var state: State
    /// The number of the newest announced change.
    @usableFromInline var revision: UInt64 = 0
    @usableFromInline var entries = FluxSlots<Entry>()
    /// The last id, of 40 bits in five bytes behind a field of four, so that a store is not larger by a word for it.
    @usableFromInline var lastID: UInt32 = 0
    @usableFromInline var lastIDHigh: UInt8 = 0
    /// Whether whoever subscribes from now on is ended at once, after what it starts with.
    @usableFromInline var isEnded = false

    @inlinable
    init(state: State) {
        self.state = state
    }

    @inlinable
    mutating func makeID() -> UInt64 {
        lastID &+= 1
        if lastID == 0 { lastIDHigh += 1 }
        return UInt64(lastIDHigh) << 32 | UInt64(lastID)
    }

    // MARK: - Inputs of the store

    /// Applies an action and puts the change, if it is announced, into all mailboxes.
    @inlinable @inline(__always)
    mutating func apply(_ action: State.Action) -> Applied {
        guard let next = state.handle(action: action) else { return Applied(revision: nil, wakes: .none) }
        state = next
        revision &+= 1
        return Applied(revision: revision, wakes: entries.isEmpty ? .none : announce())
    }

    /// Makes a change that no `handle` makes.
    @inlinable
    mutating func change(_ body: (inout State) -> Void, isAnnounced: () -> Bool = { true }) -> Applied {
        body(&state)
        guard isAnnounced() else { return Applied(revision: nil, wakes: .none) }
        revision &+= 1
        return Applied(revision: revision, wakes: announce())
    }

    /// Puts a state that was stored in the place of the initial one, and announces it; nothing was announced before.
    ///
    /// - Parameters:
    ///   - stored: The state; swapped for the initial one, to be let go of outside the lock.
    ///   - revision: The number of the change, at least 1.
    /// - Returns: The outlets whose drain is to be scheduled outside the lock.
    mutating func restore(_ stored: inout State, revision: UInt64) -> FluxWakes<Outlet> {
        swap(&state, &stored)
        self.revision = revision
        return announce()
    }

    @inlinable
    mutating func announce() -> FluxWakes<Outlet> {
        var wakes = FluxWakes<Outlet>.none
        entries.updateEach { entry in
            if entry.mailbox.put(state) { wakes.append(entry.outlet) }
        }
        return wakes
    }

    /// The first outlet that is wanted and whose mailbox has a rule; nil where there is none.
    ///
    /// One by the rule `bounded` is never shared: the bound is that of one member.
    @inlinable
    mutating func outlet(_ rule: Mailbox.Rule = .every, where isWanted: (Outlet) -> Bool) -> Outlet? {
        for position in 0..<entries.positions {
            let outlet = entries.update(position) { entry in
                entry.mailbox.rule == rule && rule != .bounded && isWanted(entry.outlet) ? entry.outlet : nil
            }
            if let outlet, let outlet { return outlet }
        }
        return nil
    }

    /// Opens a mailbox that an outlet drains.
    @inlinable
    mutating func open(_ outlet: Outlet, id: UInt64, mailbox: consuming Mailbox = Mailbox()) {
        mailbox.isEnded = isEnded
        entries.insert(Entry(outlet: outlet, mailbox: mailbox), id: id)
    }

    /// Adds a member to a mailbox, in one step with the snapshot if it wants one; true: schedule the outlet.
    @inlinable
    mutating func join(_ member: Member, id: UInt64, outlet: UInt64, startingWithCurrent: Bool) -> Bool {
        let start = revision
        let snapshot = startingWithCurrent ? state : nil
        return withMailbox(outlet) { $0.join(member, id: id, start: start, snapshot: snapshot) } ?? false
    }

    /// Removes a member.
    @inlinable
    mutating func leave(id: UInt64, outlet: UInt64) -> Remains {
        var remains = Remains()
        guard let departure = withMailbox(outlet, { $0.leave(id: id) }) else { return remains }
        if let member = departure.member { remains.members.append(member) }
        remains.states = departure.elements
        if let snapshot = departure.snapshot { remains.states.append(snapshot) }
        if let entry = removeIfAbandoned(outlet) { remains.entries.append(entry) }
        return remains
    }

    /// Adds a waiter for each mailbox where something is due; returns how many.
    @inlinable
    mutating func flush(_ waiter: Waiter) -> Int {
        var count = 0
        entries.updateEach { entry in
            if entry.mailbox.wait(waiter) { count += 1 }
        }
        return count
    }

    /// Ends all subscriptions after what is due.
    @inlinable
    mutating func end() -> Remains {
        var remains = Remains()
        isEnded = true
        entries.updateEach { remains.members += $0.mailbox.end() }
        remains.entries = entries.removeAll { $0.mailbox.isAbandoned }
        return remains
    }

    // MARK: - Inputs of a drain

    /// Starts the drain of an outlet that was scheduled, and hands out what is due; false: nothing is.
    @inlinable
    mutating func begin(_ batch: inout Mailbox.Batch, outlet: UInt64) -> Bool {
        guard withMailbox(outlet, { $0.begin(&batch) }) != nil else { return false }
        return exchange(&batch, outlet: outlet)
    }

    /// Takes back a spent batch and hands out the next one; false, and idle from here on, where nothing is due.
    @inlinable
    mutating func exchange(_ batch: inout Mailbox.Batch, outlet: UInt64) -> Bool {
        let newest = revision
        let current = batch.isConflated ? state : nil
        let isDue = withMailbox(outlet) { $0.exchange(&batch, newest: newest, current: current) } ?? false
        if !isDue { batch.remains = removeIfAbandoned(outlet)?.mailbox.bound }
        return isDue
    }

    /// Stops a drain between two batches; true: its outlet has to be scheduled again, false: it is idle.
    @inlinable
    mutating func pause(_ batch: inout Mailbox.Batch, outlet: UInt64) -> Bool {
        guard withMailbox(outlet, { $0.isDue }) == true else { return exchange(&batch, outlet: outlet) }
        _ = withMailbox(outlet) { $0.pause(&batch) }
        return true
    }

    // MARK: - Support

    @inlinable @inline(__always)
    mutating func withMailbox<Result>(_ id: UInt64, _ body: (inout Mailbox) -> Result) -> Result? {
        guard let position = entries.position(of: id) else { return nil }
        return entries.update(position) { body(&$0.mailbox) }
    }

    @inlinable
    mutating func removeIfAbandoned(_ id: UInt64) -> Entry? {
        guard withMailbox(id, { $0.isAbandoned }) == true else { return nil }
        return entries.remove(id: id)
    }
}
