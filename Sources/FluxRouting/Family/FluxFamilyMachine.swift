#if canImport(FluxCore)
    import FluxCore
#endif

/// The state of a family: its members, their leases, the waiting callers, and which members are to be evicted.
///
/// A visitor is a caller that waits for a member; a close waiter is one that waits until a key is closed.
///
/// A key is in one of four phases: none, making, open and closing. The inputs `ask`, `close` and `shutDown` may occur
/// in each phase. The others come from the task that creates or closes the member, from a caller that has a lease, or
/// from the task that sleeps until the next member is due.
///
/// | input | none | making | open, in use | open, unused | closing |
/// |---|---|---|---|---|---|
/// | ask | creates it; waits | waits | a lease | a lease | waits |
/// | ask, once shut down | refused | refused | refused | refused | refused |
/// | made | - | open; all visitors get a lease | - | - | - |
/// | made, with an error | - | none; visitors get the error, `close` returns | - | - | - |
/// | release, the last | - | - | unused | - | - |
/// | close | nothing to do | closed once unused | closed once unused | closing | waits for the end |
/// | due, or too many | - | - | - | closing | - |
/// | closed | - | - | - | - | none; created anew if a visitor waits |
/// | kept, by an error | - | - | - | - | open; visitors get a lease, `close` gets the error |
/// | shutDown | - | closed once created; visitors are refused | closed once unused | closing | visitors are refused |
///
/// Unused members form a list, the least recently used first; each is due `idle` after its last use. Members that could
/// not be closed form another list until they are tried again, so that the limit does not try them over and over. Both
/// lists are linked through the slots, so each step takes constant time.
nonisolated struct FluxFamilyMachine<Key: Hashable, Member, Visitor, CloseWaiter> {
    /// What to do without holding the lock, in this order.
    enum Effect {
        /// Create the member of a slot.
        case make(Int, Key)
        /// Report that a key is no longer open, and close its member.
        case close(Int, Key)
        /// Give each visitor a lease, which has been counted already.
        case admit([Visitor], Int)
        case refuse([Visitor], any Swift.Error)
        /// Refuse because of the shutdown; the key is described only when no lock is held.
        case turnAway([Visitor], Key)
        /// Report the result: true if a member was evicted, false if there was none.
        case answer([CloseWaiter], Swift.Result<Bool, any Swift.Error>)
        /// Start sleeping until `nextDue()`.
        case sleep
        /// The family is shut down, and its last member is evicted.
        case end
    }

    enum Phase { case making, open, closing }

    struct Entry {
        let key: Key
        var phase = Phase.making
        /// Present while the member is open or being closed.
        var member: Member?
        var leases = 0
        var visitors: [UInt64: Visitor] = [:]
        var closeWaiters: [UInt64: CloseWaiter] = [:]
    }

    struct Slot {
        var previous: Int
        var next: Int
        /// When the member is due, while it is in a list.
        var due = Swift.Duration.zero
        var entry: Entry?
    }

    let idle: Swift.Duration
    let limit: Int
    /// The first two are the ends of the lists, and hold no entry: ``unused`` and ``failed``.
    private(set) var slots = [Slot(previous: 0, next: 0), Slot(previous: 1, next: 1)]
    private(set) var index: [Key: Int] = [:]
    private(set) var openCount = 0
    private(set) var isShutDown = false
    private(set) var isSleeping = false
    /// How many members were released although they could not be closed.
    private(set) var losses = 0
    private var free: [Int] = []
    private var lastID: UInt64 = 0
    private var effects: [Effect] = []

    private static var unused: Int { 0 }
    private static var failed: Int { 1 }

    init(idle: Swift.Duration, limit: Int) { (self.idle, self.limit) = (idle, limit) }

    // MARK: - Inputs

    /// Requests a member; the answer is nil if refused, and contains the visitor if the caller has to wait.
    mutating func ask(
        _ key: Key, _ visitor: () -> Visitor
    ) -> (answer: (slot: Int, id: UInt64, visitor: Visitor?)?, [Effect]) {
        if isShutDown { return (nil, []) }
        let slot = index[key] ?? add(key)
        lastID += 1
        if slots[slot].entry!.phase == .open {
            unlink(slot)
            slots[slot].entry!.leases += 1
            return ((slot, lastID, nil), [])
        }
        let new = visitor()
        slots[slot].entry!.visitors[lastID] = new
        return ((slot, lastID, new), takeEffects())
    }

    /// Requests that a key be closed; returns nil for the place if there is nothing to wait for.
    mutating func close(_ key: Key, _ waiter: CloseWaiter) -> ((slot: Int, id: UInt64)?, [Effect]) {
        guard let slot = index[key] else { return (nil, []) }
        lastID += 1
        slots[slot].entry!.closeWaiters[lastID] = waiter
        beginClosingIfUnused(slot)
        return ((slot, lastID), takeEffects())
    }

    /// Removes a caller that no longer waits, for a member or for its end; ids are never reused, slots are.
    mutating func withdraw(_ id: UInt64, from slot: Int) {
        if slots.indices.contains(slot) {
            _ = slots[slot].entry?.visitors.removeValue(forKey: id)
            _ = slots[slot].entry?.closeWaiters.removeValue(forKey: id)
        }
    }

    mutating func release(_ slot: Int, at now: Swift.Duration) -> [Effect] {
        slots[slot].entry!.leases -= 1
        if slots[slot].entry!.leases == 0 { becameUnused(slot, at: now) }
        return takeEffects()
    }

    mutating func made(
        _ slot: Int, _ result: Swift.Result<Member, any Swift.Error>, at now: Swift.Duration
    ) -> [Effect] {
        switch result {
        case .success(let member):
            slots[slot].entry!.member = member
            open(slot) { $0.becameUnused(slot, at: now) }
        case .failure(let error):
            let entry = remove(slot)
            // Even if no visitor waits any more: the error is the user's, and must be released outside the lock.
            effects.append(.refuse(Array(entry.visitors.values), error))
            answer(entry.closeWaiters, .success(false))
        }
        return takeEffects()
    }

    func member(of slot: Int) -> Member? { slots[slot].entry?.member }

    func member(for key: Key) -> Member? { index[key].flatMap { member(of: $0) } }

    /// Takes out a member that was closed or lost, to be released before `closed`; until then, new visitors wait.
    mutating func takeMember(
        of slot: Int, _ result: Swift.Result<Bool, any Swift.Error> = .success(true)
    ) -> Member? {
        // Atomic: a flush sees either the member or the loss.
        if case .failure = result { losses += 1 }
        return Swift.exchange(&slots[slot].entry!.member, with: nil)
    }

    /// Records that the member of a slot is gone, so that another may be created.
    mutating func closed(
        _ slot: Int, _ result: Swift.Result<Bool, any Swift.Error> = .success(true)
    ) -> [Effect] {
        let entry = slots[slot].entry!
        if entry.visitors.isEmpty {
            _ = remove(slot)
        } else {
            slots[slot].entry!.phase = .making
            slots[slot].entry!.closeWaiters = [:]
            effects.append(.make(slot, entry.key))
        }
        answer(entry.closeWaiters, result)
        return takeEffects()
    }

    /// Records that the member of a slot could not be closed.
    mutating func kept(_ slot: Int, _ error: any Swift.Error, at now: Swift.Duration) -> [Effect] {
        answer(Swift.exchange(&slots[slot].entry!.closeWaiters, with: [:]), .failure(error))
        open(slot) { $0.line(up: slot, behind: Self.failed, at: now) }
        return takeEffects()
    }

    /// Begins to close the members that are due at a moment.
    mutating func wake(at now: Swift.Duration) -> [Effect] {
        for line in [Self.unused, Self.failed] {
            while slots[line].next != line, slots[slots[line].next].due <= now { beginClosing(slots[line].next) }
        }
        return takeEffects()
    }

    /// Returns when the next member is due; nil if none is, and then the sleeping task ends.
    mutating func nextDue() -> Swift.Duration? {
        let due = [Self.unused, Self.failed].filter { slots[$0].next != $0 }.map { slots[slots[$0].next].due }.min()
        isSleeping = due != nil
        return due
    }

    /// Closes all members as soon as they are unused, and creates no more; returns the waiter to be answered for each
    /// key.
    mutating func shutDown(_ makeWaiter: () -> CloseWaiter) -> ([(key: Key, waiter: CloseWaiter)], [Effect]) {
        var told: [(key: Key, waiter: CloseWaiter)] = []
        isShutDown = true
        for (key, slot) in index {
            told.append((key, makeWaiter()))
            lastID += 1
            slots[slot].entry!.closeWaiters[lastID] = told.last!.waiter
            let visitors = Swift.exchange(&slots[slot].entry!.visitors, with: [:])
            if !visitors.isEmpty { effects.append(.turnAway(Array(visitors.values), key)) }
            beginClosingIfUnused(slot)
        }
        if index.isEmpty { effects.append(.end) }
        return (told, takeEffects())
    }

    /// All members, including those being closed.
    var members: [(key: Key, member: Member)] {
        slots.compactMap { slot in slot.entry.flatMap { entry in entry.member.map { (entry.key, $0) } } }
    }

    // MARK: - Steps

    private mutating func takeEffects() -> [Effect] { Swift.exchange(&effects, with: []) }

    private mutating func add(_ key: Key) -> Int {
        let slot = free.popLast() ?? slots.count
        let new = Slot(previous: slot, next: slot, entry: Entry(key: key))
        if slot == slots.count { slots.append(new) } else { slots[slot] = new }
        index[key] = slot
        effects.append(.make(slot, key))
        return slot
    }

    private mutating func remove(_ slot: Int) -> Entry {
        let entry = slots[slot].entry!
        slots[slot].entry = nil
        index[entry.key] = nil
        free.append(slot)
        if index.isEmpty {
            // Gives back the memory that many keys have taken.
            if slots.count > 1_024 {
                (slots, free, index) = ([slots[Self.unused], slots[Self.failed]], [], [:])
            }
            if isShutDown { effects.append(.end) }
        }
        return entry
    }

    /// Opens the member of a slot, and admits the visitors that wait; `ifUnused` handles the member if there are none.
    private mutating func open(_ slot: Int, _ ifUnused: (inout Self) -> Void) {
        slots[slot].entry!.phase = .open
        openCount += 1
        // Before any visitor is admitted, because it would otherwise see more open members than the limit allows.
        keepToLimit()
        let visitors = Swift.exchange(&slots[slot].entry!.visitors, with: [:])
        if visitors.isEmpty { return ifUnused(&self) }
        slots[slot].entry!.leases = visitors.count
        effects.append(.admit(Array(visitors.values), slot))
    }

    /// Handles a member that is no longer in use.
    private mutating func becameUnused(_ slot: Int, at now: Swift.Duration) {
        if idle == .zero || !slots[slot].entry!.closeWaiters.isEmpty { return beginClosing(slot) }
        line(up: slot, behind: Self.unused, at: now)
        keepToLimit()
    }

    private mutating func keepToLimit() {
        while openCount > limit, slots[Self.unused].next != Self.unused { beginClosing(slots[Self.unused].next) }
    }

    private mutating func line(up slot: Int, behind line: Int, at now: Swift.Duration) {
        let last = slots[line].previous
        // If `idle` is zero, a member that cannot be closed would otherwise be tried again without a pause.
        let delay = idle == .zero ? .seconds(1) : Swift.min(idle, FluxFamilyTimer.longest)
        slots[slot].due = now + delay
        (slots[slot].previous, slots[slot].next) = (last, line)
        (slots[last].next, slots[line].previous) = (slot, slot)
        if !isSleeping { effects.append(.sleep) }
        isSleeping = true
    }

    private mutating func unlink(_ slot: Int) {
        let (previous, next) = (slots[slot].previous, slots[slot].next)
        (slots[previous].next, slots[next].previous) = (next, previous)
        (slots[slot].previous, slots[slot].next) = (slot, slot)
    }

    private mutating func beginClosingIfUnused(_ slot: Int) {
        if slots[slot].entry!.phase == .open && slots[slot].entry!.leases == 0 { beginClosing(slot) }
    }

    private mutating func beginClosing(_ slot: Int) {
        unlink(slot)
        slots[slot].entry!.phase = .closing
        openCount -= 1
        effects.append(.close(slot, slots[slot].entry!.key))
    }

    private mutating func answer(_ closeWaiters: [UInt64: CloseWaiter], _ result: Swift.Result<Bool, any Swift.Error>) {
        if !closeWaiters.isEmpty { effects.append(.answer(Array(closeWaiters.values), result)) }
    }
}

/// The open members of a family, as the state of a store.
nonisolated struct FluxFamilyMembers<Key: Hashable & Sendable, Member: Sendable>: FluxState {
    enum Action: FluxAction {
        case opened(Key, Member)
        case closed(Key)
        /// No key is opened from now on.
        case ended
    }

    private(set) var members: [Key: Member] = [:]
    private(set) var isEnded = false

    /// Changes the members in place: nothing is copied unless the previous state is still kept.
    mutating func handle(action: Action) -> Self? {
        switch action {
        case .opened(let key, let member): members[key] = member
        case .closed(let key):
            members[key] = nil
            // Gives back the memory that many keys have taken.
            if members.isEmpty && members.capacity > 1_024 { members = [:] }
        case .ended:
            isEnded = true
            return nil
        }
        return self
    }
}
