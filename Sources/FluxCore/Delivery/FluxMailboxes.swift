import Dispatch

/// All mailboxes of a store: one for each queue and kind of delivery.
///
/// A struct that the store's lock guards, because a change enters the pending lists in the same atomic step that
/// applies it. If states were added after the unlock, an older one could come in after a newer one.
@usableFromInline nonisolated struct FluxMailboxes<State: FluxState> {
    /// The number of announced changes; it is the store's revision without the skipped ones, see ``FluxObserving``.
    ///
    /// It is declared first, next to the state, because each dispatch writes both. In mailboxes and subscribers,
    /// "revision" means this number.
    @usableFromInline var newest: UInt64 = 0
    @usableFromInline var list = FluxList<FluxMailbox<State>>()
    /// Whether the store was released: all subscriptions end after the pending deliveries.
    @usableFromInline var isEnded = false
    /// The id of the newest subscription; it starts at 1, so only the plain mailbox has the id ``FluxMailbox/plain``.
    @usableFromInline var lastID: UInt64 = 1

    @inlinable init() {}

    // MARK: - Inputs of the store

    /// Puts the newest state, whose revision is counted already, into all mailboxes; adds the
    /// deliveries to wake to `wakes`.
    ///
    /// The state is passed by its address: as a value it would be retained once more, and
    /// threads contend for the count.
    @inlinable mutating func announce(_ state: inout State, _ wakes: inout FluxWakes) {
        list.updateEach { mailbox in
            if let due = mailbox.put(&state) { wakes.append(.some(due, settlesFirst: true)) }
        }
    }

    /// Adds a handler to the mailbox of a queue, which is created if needed; returns the delivery to wake, if any.
    @inlinable mutating func join(
        _ handle: FluxStoreHandle<State>, _ delivery: FluxDelivery, _ queue: DispatchQueue?, _ snapshot: State?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> (member: FluxSubscriber<State>, due: FluxStateDelivery<State>?) {
        lastID += 1
        let isConflated = delivery == .latest
        var target: FluxStateDelivery<State>?
        if queue != nil || isConflated {
            list.updateEach {
                if let old = $0.delivery, old.isConflated == isConflated, fluxIsSame(old.queue, queue) { target = old }
            }
            target = target ?? FluxStateDelivery(handle, id: lastID << 1 | (isConflated ? 1 : 0), queue: queue)
        }
        let id = target?.id ?? FluxMailbox<State>.plain
        if list.update(id: id, { _ in }) == nil {
            list.insert(FluxMailbox(target.map { .made($0) } ?? .plain(handle), isConflated: isConflated), id: id)
        }
        let member = FluxSubscriber<State>(id: lastID, after: newest, from: target ?? handle, handler: handler)
        return (member, list.update(id: id) { $0.join(member, with: snapshot) } ?? nil)
    }

    /// Removes a handler.
    @inlinable mutating func leave(_ id: UInt64, _ mailboxID: UInt64) -> FluxMailbox<State>.Batch {
        var rest = FluxMailbox<State>.Batch()
        list.update(id: mailboxID) { $0.leave(id, &rest) }
        rest.waiters = drop(mailboxID)
        return rest
    }

    /// Ends all subscriptions after the pending deliveries; removes and returns the mailboxes with nothing pending.
    @inlinable mutating func end() -> FluxList<FluxMailbox<State>> {
        isEnded = true
        return list.removeAll { $0.phase == .idle || $0.isAbandoned }
    }

    // MARK: - Inputs of a drain

    /// Advances a drain by one step; true if the batch has something to deliver or, for a
    /// pause, if a drain must follow.
    @inlinable mutating func step(
        _ mailboxID: UInt64, _ batch: inout FluxMailbox<State>.Batch, isPause: Bool, current: State?
    ) -> Bool {
        let (newest, isEnded) = (newest, isEnded)
        let isDue = list.update(id: mailboxID) {
            $0.step(&batch, isPause: isPause, newest: newest, current: current, isEnded: isEnded)
        }
        if isDue != true { drop(mailboxID) }
        return isDue == true
    }

    /// Removes a mailbox if it is no longer needed; returns its latches.
    @inlinable @discardableResult mutating func drop(_ mailboxID: UInt64) -> [ObjectIdentifier: FluxLatch] {
        guard list.update(id: mailboxID, { $0.isAbandoned }) == true else { return [:] }
        return list.remove(id: mailboxID)?.waiters ?? [:]
    }
}
