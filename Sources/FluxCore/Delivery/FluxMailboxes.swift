import Dispatch

/// All mailboxes of a store, one for each queue and for each way to deliver.
///
/// A struct under the lock of the store, so that a change goes into the pending lists in the step that makes it: pushed after
/// the unlock, values would arrive stale.
@usableFromInline nonisolated struct FluxMailboxes<State: FluxState> {
    /// The revision of the newest state; first, beside the state, for each dispatch writes both.
    @usableFromInline var newest: UInt64 = 0
    @usableFromInline var list = FluxList<FluxMailbox<State>>()
    /// Whether the store was let go: all end after what is due.
    @usableFromInline var isEnded = false
    /// That of the newest subscription; it begins at 1, so that no mailbox of a delivery has the id ``FluxMailbox/plain``.
    @usableFromInline var lastID: UInt64 = 1

    @inlinable init() {}

    // MARK: - Inputs of the store

    /// Puts the newest state, whose revision was counted, into all mailboxes, and adds whom to wake outside the lock.
    ///
    /// The state comes by its address: passed as a value it is retained once more, and each count costs what two threads fight over.
    @inlinable mutating func announce(_ state: inout State, _ wakes: inout FluxWakes) {
        list.updateEach { mailbox in
            if let due = mailbox.put(&state) { wakes.append(.some(due, isFirst: true)) }
        }
    }

    /// Adds a handler to the mailbox of a queue, which is opened if there is none; hands out what is to be woken.
    @inlinable mutating func join(
        _ handle: FluxStoreHandle<State>, _ delivery: FluxDelivery, _ queue: DispatchQueue?, _ snapshot: State?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> (member: FluxSubscriber<State>, due: FluxStateDelivery<State>?) {
        lastID += 1
        let isConflated = delivery == .latest
        var target: FluxStateDelivery<State>?
        if queue != nil || isConflated {
            list.updateEach {
                if let made = $0.made, made.isConflated == isConflated, fluxIsSame(made.queue, queue) { target = made }
            }
            target = target ?? FluxStateDelivery(handle, id: lastID << 1 | (isConflated ? 1 : 0), queue: queue)
        }
        let place = target?.id ?? FluxMailbox<State>.plain
        if list.update(id: place, { _ in }) == nil {
            list.insert(FluxMailbox(target.map { .made($0) } ?? .plain(handle), isConflated: isConflated), id: place)
        }
        let member = FluxSubscriber<State>(id: lastID, after: newest, leaving: target ?? handle, handler: handler)
        return (member, list.update(id: place) { $0.join(member, with: snapshot) } ?? nil)
    }

    /// Removes a handler.
    @inlinable mutating func leave(_ id: UInt64, _ delivery: UInt64) -> FluxMailbox<State>.Batch {
        var rest = FluxMailbox<State>.Batch()
        list.update(id: delivery) { $0.leave(id, &rest) }
        rest.waiters = drop(delivery)
        return rest
    }

    /// Ends all subscriptions after what is due; hands out the mailboxes in which nothing is.
    @inlinable mutating func end() -> FluxList<FluxMailbox<State>> {
        isEnded = true
        return list.removeAll { $0.phase == .idle || $0.isAbandoned }
    }

    // MARK: - Inputs of a drain

    /// Takes a drain one step on; true: the batch has something to deliver, or, of a pause, is to be scheduled again.
    @inlinable mutating func step(
        _ delivery: UInt64, _ batch: inout FluxMailbox<State>.Batch, isPause: Bool, current: State?
    ) -> Bool {
        let (newest, isEnded) = (newest, isEnded)
        let isDue = list.update(id: delivery) {
            $0.step(&batch, isPause: isPause, newest: newest, current: current, isEnded: isEnded)
        }
        if isDue != true { drop(delivery) }
        return isDue == true
    }

    /// Takes a mailbox out that nobody needs any more; returns those who wait for it.
    @inlinable @discardableResult mutating func drop(_ delivery: UInt64) -> [ObjectIdentifier: FluxLatch] {
        guard list.update(id: delivery, { $0.isAbandoned }) == true else { return [:] }
        return list.remove(id: delivery)?.waiters ?? [:]
    }
}

/// Whether something is due, and a drain of it scheduled or at work.
@usableFromInline nonisolated enum FluxDrainPhase { case idle, scheduled, draining }
