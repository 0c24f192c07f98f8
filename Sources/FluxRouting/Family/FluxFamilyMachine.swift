#if canImport(FluxCore)
    import FluxCore
#endif

/// Which members of a family there are, who has one, who waits for one, and which are to be put away.
///
/// A key is in one of four phases. `ask`, `close` and `shutDown` may come in each; the others come from whoever makes the
/// member, puts it away, has a lease or sleeps until the next is due.
///
/// | input               | none                | making              | open, in use         | open, not in use    | closing           |
/// |---------------------|---------------------|---------------------|----------------------|---------------------|-------------------|
/// | ask                 | is made; waits      | waits               | a lease              | a lease             | waits             |
/// | ask, once shut down | refused             | refused             | refused              | refused             | refused           |
/// | made                | -                   | open; all who wait have a lease            | -  | -                  | -                 |
/// | made, with an error | -                   | none; who asked gets the error, who closes returns | -  | -                  | -                 |
/// | release, the last   | -                   | -                   | not in use           | -                   | -                 |
/// | close               | nothing to do       | closed once not in use | closed once not in use | closing          | waits for the end |
/// | due, or too many    | -                   | -                   | -                    | closing             | -                 |
/// | closed              | -                   | -                   | -                    | -                   | none; made anew if somebody waits |
/// | kept, by an error   | -                   | -                   | -                    | -                   | open; who asked has a lease, who closes gets the error |
/// | shutDown            | -                   | closed once made; who waits is refused | closed once not in use | closing | who waits is refused |
///
/// Members that are not in use stand in a line, the one used longest ago first: `idle` after its last use each is due. One that could
/// not be closed stands in another, until it is tried again, so that a limit does not ask it over and over. Both are linked
/// through the slots, so each step takes constant time.
nonisolated struct FluxFamilyMachine<Key: Hashable, Member, Visitor, Closer> {
    /// What to do without the lock, in this order.
    enum Effect {
        /// Make the member of a slot.
        case make(Int, Key)
        /// Tell that a key is open no longer, and close its member.
        case close(Int, Key)
        /// Hand each a lease, which has been counted.
        case admit([Visitor], Int)
        case refuse([Visitor], any Swift.Error)
        /// Refuse because of the shutdown; the key is described once no lock is held.
        case turnAway([Visitor], Key)
        /// Tell how it ended: true for a member that was put away, false for none.
        case answer([Closer], Swift.Result<Bool, any Swift.Error>)
        /// Start to sleep until `nextDue()`.
        case sleep
        /// Shut down, and the last member is put away.
        case end
    }

    enum Phase { case making, open, closing }

    struct Entry {
        let key: Key
        var phase = Phase.making
        /// There while it is open or is closed.
        var member: Member?
        var leases = 0
        var visitors: [UInt64: Visitor] = [:]
        var closers: [UInt64: Closer] = [:]
    }

    struct Slot {
        var previous: Int
        var next: Int
        /// When it is to be put away, while it stands in a line.
        var due = Swift.Duration.zero
        var entry: Entry?
    }

    let idle: Swift.Duration
    let limit: Int
    /// The first two are the ends of the lines, and hold nothing: ``unused`` and ``failed``.
    private(set) var slots = [Slot(previous: 0, next: 0), Slot(previous: 1, next: 1)]
    private(set) var index: [Key: Int] = [:]
    private(set) var openCount = 0
    private(set) var isShutDown = false
    private(set) var isSleeping = false
    /// How many were let go of that could not be put away.
    private(set) var losses = 0
    private var free: [Int] = []
    private var lastID: UInt64 = 0
    private var effects: [Effect] = []

    private static var unused: Int { 0 }
    private static var failed: Int { 1 }

    init(idle: Swift.Duration, limit: Int) { (self.idle, self.limit) = (idle, limit) }

    // MARK: - Inputs

    /// Asks for a member; where somebody has to wait for it he is in the answer; nil: refused.
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

    /// Asks for a key to be closed; nil: there is nothing to wait for.
    mutating func close(_ key: Key, _ closer: Closer) -> ((slot: Int, id: UInt64)?, [Effect]) {
        guard let slot = index[key] else { return (nil, []) }
        lastID += 1
        slots[slot].entry!.closers[lastID] = closer
        beginClosingIfUnused(slot)
        return ((slot, lastID), takeEffects())
    }

    /// Somebody waits no longer, for a member or for its end; ids are never used again, slots are.
    mutating func withdraw(_ id: UInt64, from slot: Int) {
        if slots.indices.contains(slot) {
            _ = slots[slot].entry?.visitors.removeValue(forKey: id)
            _ = slots[slot].entry?.closers.removeValue(forKey: id)
        }
    }

    mutating func release(_ slot: Int, at now: Swift.Duration) -> [Effect] {
        slots[slot].entry!.leases -= 1
        if slots[slot].entry!.leases == 0 { rest(slot, at: now) }
        return takeEffects()
    }

    mutating func made(
        _ slot: Int, _ result: Swift.Result<Member, any Swift.Error>, at now: Swift.Duration
    ) -> [Effect] {
        switch result {
        case .success(let member):
            slots[slot].entry!.member = member
            open(slot) { $0.rest(slot, at: now) }
        case .failure(let error):
            let entry = remove(slot)
            // Also where nobody waits any more: the error is the user's, and let go of without the lock.
            effects.append(.refuse(Array(entry.visitors.values), error))
            answer(entry.closers, .success(false))
        }
        return takeEffects()
    }

    func member(of slot: Int) -> Member? { slots[slot].entry?.member }

    func member(for key: Key) -> Member? { index[key].flatMap { member(of: $0) } }

    /// The member of a slot has been put away, or lost; returns it, to be let go of before `closed`: who asks until then waits.
    mutating func takeMember(
        of slot: Int, _ result: Swift.Result<Bool, any Swift.Error> = .success(true)
    ) -> Member? {
        // In one step: who flushes sees the member, or that it was lost.
        if case .failure = result { losses += 1 }
        return Swift.exchange(&slots[slot].entry!.member, with: nil)
    }

    /// The member of a slot is gone, and another may be made.
    mutating func closed(
        _ slot: Int, _ result: Swift.Result<Bool, any Swift.Error> = .success(true)
    ) -> [Effect] {
        let entry = slots[slot].entry!
        if entry.visitors.isEmpty {
            _ = remove(slot)
        } else {
            slots[slot].entry!.phase = .making
            slots[slot].entry!.closers = [:]
            effects.append(.make(slot, entry.key))
        }
        answer(entry.closers, result)
        return takeEffects()
    }

    /// The member of a slot could not be put away.
    mutating func kept(_ slot: Int, _ error: any Swift.Error, at now: Swift.Duration) -> [Effect] {
        answer(slots[slot].entry!.closers, .failure(error))
        slots[slot].entry!.closers = [:]
        open(slot) { $0.line(up: slot, behind: Self.failed, at: now) }
        return takeEffects()
    }

    /// Puts away what is due at a moment.
    mutating func wake(at now: Swift.Duration) -> [Effect] {
        for line in [Self.unused, Self.failed] {
            while slots[line].next != line, slots[slots[line].next].due <= now { beginClosing(slots[line].next) }
        }
        return takeEffects()
    }

    /// When the next is due; nil: none is, and nobody sleeps from here on.
    mutating func nextDue() -> Swift.Duration? {
        let due = [Self.unused, Self.failed].filter { slots[$0].next != $0 }.map { slots[slots[$0].next].due }.min()
        isSleeping = due != nil
        return due
    }

    /// Puts all away as soon as nobody uses them, and makes no more; returns who is told of each key.
    mutating func shutDown(_ closer: () -> Closer) -> ([(key: Key, closer: Closer)], [Effect]) {
        var told: [(key: Key, closer: Closer)] = []
        isShutDown = true
        for (key, slot) in index {
            told.append((key, closer()))
            lastID += 1
            slots[slot].entry!.closers[lastID] = told.last!.closer
            let visitors = Array(slots[slot].entry!.visitors.values)
            slots[slot].entry!.visitors = [:]
            if !visitors.isEmpty { effects.append(.turnAway(visitors, key)) }
            beginClosingIfUnused(slot)
        }
        if index.isEmpty { effects.append(.end) }
        return (told, takeEffects())
    }

    /// All members, those that are being closed too.
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
            // The room that many keys took is given back.
            if slots.count > 1_024 {
                (slots, free, index) = ([slots[Self.unused], slots[Self.failed]], [], [:])
            }
            if isShutDown { effects.append(.end) }
        }
        return entry
    }

    /// The member of a slot is there: who waits gets it, or else it comes to rest.
    private mutating func open(_ slot: Int, _ rest: (inout Self) -> Void) {
        slots[slot].entry!.phase = .open
        openCount += 1
        // Before anybody is admitted, who would else see more open than there may be.
        keepToLimit()
        let visitors = slots[slot].entry!.visitors
        if visitors.isEmpty { return rest(&self) }
        slots[slot].entry!.visitors = [:]
        slots[slot].entry!.leases = visitors.count
        effects.append(.admit(Array(visitors.values), slot))
    }

    /// Nobody uses a member any more.
    private mutating func rest(_ slot: Int, at now: Swift.Duration) {
        if idle == .zero || !slots[slot].entry!.closers.isEmpty { return beginClosing(slot) }
        line(up: slot, behind: Self.unused, at: now)
        keepToLimit()
    }

    private mutating func keepToLimit() {
        while openCount > limit, slots[Self.unused].next != Self.unused { beginClosing(slots[Self.unused].next) }
    }

    private mutating func line(up slot: Int, behind line: Int, at now: Swift.Duration) {
        let last = slots[line].previous
        // With no while at all what cannot be closed would be tried again without a pause.
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

    private mutating func answer(_ closers: [UInt64: Closer], _ result: Swift.Result<Bool, any Swift.Error>) {
        if !closers.isEmpty { effects.append(.answer(Array(closers.values), result)) }
    }
}

/// The open members of a family, as the state of a store.
nonisolated struct FluxFamilyMembers<Key: Hashable & Sendable, Member: Sendable>: FluxState {
    enum Action: FluxAction {
        case opened(Key, Member)
        case closed(Key)
        /// No key is opened any more.
        case ended
    }

    private(set) var members: [Key: Member] = [:]
    private(set) var isEnded = false

    /// In place: nothing is copied unless somebody keeps the state before.
    mutating func handle(action: Action) -> Self? {
        switch action {
        case .opened(let key, let member): members[key] = member
        case .closed(let key):
            members[key] = nil
            // The room that many keys took is given back.
            if members.isEmpty && members.capacity > 1_024 { members = [:] }
        case .ended:
            isEnded = true
            return nil
        }
        return self
    }
}
