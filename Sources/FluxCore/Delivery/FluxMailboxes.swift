import Dispatch

/// What a drain has of a mailbox.
@usableFromInline typealias FluxBatch<Owner: FluxMailboxOwner> = FluxMailbox<
    Owner.Element, Unmanaged<FluxSubscriber<Owner>>, FluxLatch
>.Batch

/// All mailboxes of one store or one delivery, one for each queue and rule: what is delivered, and who drains it.
///
/// A struct in the machine of its owner, so that a change goes into the pending lists in the step that makes it: pushed after
/// the unlock, values would arrive stale.
@usableFromInline nonisolated struct FluxMailboxes<Owner: FluxMailboxOwner> {
    @usableFromInline typealias Mailbox = FluxMailbox<Owner.Element, Unmanaged<FluxSubscriber<Owner>>, FluxLatch>

    @usableFromInline typealias Entry = (outlet: FluxOutlet<Owner>, mailbox: Mailbox)

    /// What was taken out, to be let go of outside the lock.
    @usableFromInline struct Remains {
        @usableFromInline var members: ContiguousArray<Unmanaged<FluxSubscriber<Owner>>> = []
        @usableFromInline var waiters: ContiguousArray<FluxLatch> = []
        @usableFromInline var gone: [Any] = []

        @inlinable init() {}

        @inlinable func letGo() {
            for member in members { member.retire() }
            for waiter in waiters { waiter.leave() }
        }
    }

    @usableFromInline var entries = FluxList<Entry>()
    /// The last id, of 40 bits in five bytes behind a field of four, so that a store is not larger by a word for it.
    @usableFromInline var lastID: UInt32 = 0
    @usableFromInline var lastIDHigh: UInt8 = 0
    /// Whether whoever subscribes from now on is ended at once, after what it starts with.
    @usableFromInline var isEnded = false
    /// The number of the newest element.
    @usableFromInline var newest: UInt64 = 0

    @inlinable init() {}

    @inlinable mutating func makeID() -> UInt64 {
        lastID &+= 1
        if lastID == 0 { lastIDHigh += 1 }
        return UInt64(lastIDHigh) << 32 | UInt64(lastID)
    }

    // MARK: - Inputs of the owner

    /// Puts the newest element, whose number was counted, into all mailboxes; returns whom to wake outside the lock.
    @inlinable mutating func announce(_ element: Owner.Element, _ wakes: inout FluxWakes) {
        entries.updateEach { entry in
            if entry.mailbox.put(element) { wakes.append(entry.outlet) }
        }
    }

    /// Adds a handler to the mailbox of a queue, which is opened if there is none; the outlet is to be woken if one returns.
    @inlinable mutating func join(
        _ owner: Owner, _ rule: Mailbox.Rule, on queue: DispatchQueue?, snapshot: Owner.Element?,
        _ handler: @escaping @Sendable (Owner.Element) -> Void
    ) -> (subscriber: FluxSubscriber<Owner>, due: FluxOutlet<Owner>?) {
        let outlet = outlet(rule) { fluxIsSame($0.queue, queue) } ?? open(owner, rule, queue)
        let subscriber = FluxSubscriber(id: makeID(), outlet: outlet, handler: handler)
        let start = newest
        let isDue = withMailbox(outlet.id) { mailbox in
            mailbox.join(.passRetained(subscriber), id: subscriber.id, start: start, snapshot: snapshot)
        }
        return (subscriber, isDue == true ? outlet : nil)
    }

    /// Removes a handler.
    @inlinable mutating func leave(_ id: UInt64, outlet: UInt64) -> Remains {
        var remains = Remains()
        let member = withMailbox(outlet) { $0.leave(id: id, &remains.gone) }
        if let member, let member { remains.members.append(member) }
        remains.waiters = removeIfAbandoned(outlet)?.mailbox.waiters ?? []
        return remains
    }

    /// Adds a waiter to each mailbox where something is due; returns what to withdraw it by.
    @inlinable mutating func wait(_ latch: FluxLatch) -> UInt64 {
        let (id, number) = (makeID(), newest)
        entries.updateEach { entry in
            latch.enter()
            if !entry.mailbox.wait(latch, id: id, newest: number) { latch.leave() }
        }
        return id
    }

    /// Adds a waiter that is told once no call of a handler in a mailbox is under way; nil: none is.
    @inlinable mutating func waitForCall(_ latch: FluxLatch, outlet: UInt64) -> UInt64? {
        let id = makeID()
        let isDraining = withMailbox(outlet) { $0.phase == .draining && $0.wait(latch, id: id, newest: 0) }
        if isDraining != true { return nil }
        latch.enter()
        return id
    }

    @inlinable mutating func withdraw(_ id: UInt64) { entries.updateEach { $0.mailbox.withdraw(id) } }

    /// Ends all subscriptions after what is due.
    @inlinable mutating func end() -> Remains {
        var remains = Remains()
        isEnded = true
        entries.updateEach { remains.members += $0.mailbox.end() }
        for entry in entries.removeAll(where: { $0.mailbox.isAbandoned }) { remains.waiters += entry.mailbox.waiters }
        return remains
    }

    // MARK: - Inputs of a drain

    /// Takes a drain one step on; true: the batch has something to deliver, or, of a pause, is to be scheduled again.
    @inlinable mutating func step(
        _ step: FluxDrainStep, _ outlet: UInt64, _ batch: inout FluxBatch<Owner>, current: Owner.Element?
    ) -> Bool {
        switch step {
        case .begin:
            guard withMailbox(outlet, { $0.begin(&batch) }) != nil else { return false }
        case .exchange: break
        case .pause:
            guard withMailbox(outlet, { $0.isDue }) == true else { break }
            _ = withMailbox(outlet) { $0.pause(&batch) }
            return true
        case .purge:
            _ = withMailbox(outlet) { $0.purge(&batch) }
            return true
        }
        let newest = newest
        let isDue = withMailbox(outlet) { $0.exchange(&batch, newest: newest, current: current) } ?? false
        if !isDue { _ = removeIfAbandoned(outlet) }
        return isDue
    }

    // MARK: - Support

    @inlinable
    mutating func outlet(_ rule: Mailbox.Rule, where isWanted: (FluxOutlet<Owner>) -> Bool) -> FluxOutlet<Owner>? {
        for position in 0..<entries.positions {
            let outlet = entries.update(position) { $0.mailbox.rule == rule && isWanted($0.outlet) ? $0.outlet : nil }
            if let outlet, let outlet { return outlet }
        }
        return nil
    }

    @inlinable mutating func open(_ owner: Owner, _ rule: Mailbox.Rule, _ queue: DispatchQueue?) -> FluxOutlet<Owner> {
        let outlet = FluxOutlet(owner: owner, id: makeID(), queue: queue, isConflated: rule == .latest)
        var mailbox = Mailbox(rule)
        mailbox.isEnded = isEnded
        entries.insert((outlet, mailbox), id: outlet.id)
        return outlet
    }

    @inlinable @inline(__always)
    mutating func withMailbox<Result>(_ id: UInt64, _ body: (inout Mailbox) -> Result) -> Result? {
        guard let position = entries.position(of: id) else { return nil }
        return entries.update(position) { body(&$0.mailbox) }
    }

    @inlinable mutating func removeIfAbandoned(_ id: UInt64) -> Entry? {
        guard withMailbox(id, { $0.isAbandoned }) == true else { return nil }
        return entries.remove(id: id)
    }
}
