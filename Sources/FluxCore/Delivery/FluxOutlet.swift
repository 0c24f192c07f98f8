import Dispatch
import Synchronization

/// Who has mailboxes under a lock of its own: a store, or a delivery of anything else.
@usableFromInline nonisolated protocol FluxMailboxOwner: AnyObject, Sendable {
    associatedtype Element: Sendable

    /// Takes a drain one step on, under the lock.
    func step(_ step: FluxDrainStep, _ outlet: UInt64, _ batch: inout FluxBatch<Self>) -> Bool
    /// Runs a closure on the mailboxes, under the lock.
    func withMailboxes<Result>(_ body: (inout FluxMailboxes<Self>) -> Result) -> Result
    /// Calls the drain of an outlet as the client's module has specialised it: unspecialised it takes 20 times as long.
    func drain(_ outlet: FluxOutlet<Self>)
    /// Takes a subscription out of the mailbox of an outlet.
    func leave(_ id: UInt64, _ outlet: FluxOutlet<Self>)
    /// Where to deliver if nothing else was asked for.
    var ownQueue: DispatchQueue { get }
}

nonisolated extension FluxMailboxOwner {
    /// Waits until all that is due has been handed over, or the task is cancelled.
    func flushMailboxes() async {
        await FluxLatch.wait { latch in
            withMailboxes { $0.wait(latch) }
        } withdrawing: { id in
            withMailboxes { $0.withdraw(id) }
        }
    }
}

/// What a drain asks of the mailboxes.
@usableFromInline nonisolated enum FluxDrainStep {
    case begin, exchange, pause, purge
}

/// Delivers what is announced to the subscriptions on one queue.
///
/// At most one drain of it is scheduled or running at any time; its mailbox sees to that.
@usableFromInline nonisolated final class FluxOutlet<Owner: FluxMailboxOwner>: FluxSettling {
    @usableFromInline typealias Batch = FluxBatch<Owner>

    @usableFromInline let owner: Owner
    /// The queue to deliver on; nil: the owner's own.
    @usableFromInline let queue: DispatchQueue?
    /// Its id, of 40 bits, and below that whether it is conflated: so that the object is 16 bytes smaller.
    @usableFromInline let tag: UInt64
    private let alarm = FluxLock<DispatchSource?>(nil)

    @inlinable init(owner: Owner, id: UInt64, queue: DispatchQueue?, isConflated: Bool) {
        (self.owner, self.queue, tag) = (owner, queue, id << 1 | (isConflated ? 1 : 0))
    }

    @inlinable var id: UInt64 { tag >> 1 }

    /// Whether it delivers the current element only, which is read for the first batch already.
    @inlinable var isConflated: Bool { tag & 1 == 1 }

    deinit { alarm.withLock { $0 }?.cancel() }

    /// Schedules a drain.
    ///
    /// By a dispatch source, made on first use: unlike a block put on the queue it allocates nothing, however often.
    @usableFromInline func settle() {
        let alarm = alarm.withLock { alarm in
            let known = alarm ?? makeAlarm()
            alarm = known
            return known
        }
        alarm.add(data: 1)
    }

    private func makeAlarm() -> DispatchSource {
        let source = DispatchSource.makeUserDataAddSource(queue: queue ?? owner.ownQueue)
        guard let alarm = source as? DispatchSource else {
            fatalError("FluxCore: this system's dispatch sources are of a class of their own: \(type(of: source))")
        }
        // Weakly, or the outlet would never go. While anything is due, its owner and it keep each other.
        alarm.setEventHandler { [weak self] in
            if let self { owner.drain(self) }
        }
        alarm.activate()
        return alarm
    }

    // MARK: - Draining

    @inlinable func drain() {
        var batch = Batch()
        batch.isConflated = isConflated
        var isDue = owner.step(.begin, id, &batch)
        // On a queue of the user's, what conflates is one call for each turn of that queue.
        let limit = batch.isConflated && queue != nil ? 1 : FluxLimits.batchesInARow
        var batches = 0
        while isDue {
            letGo(&batch)
            deliver(&batch)
            batches += 1
            if batches == limit {
                let isDue = owner.step(.pause, id, &batch)
                letGo(&batch)
                if !isDue { return }
                // By way of the pool: the thread would go on with its own serial queue, and never be given back.
                return limit == 1 ? settle() : DispatchQueue.global().async { self.settle() }
            }
            isDue = owner.step(.exchange, id, &batch)
        }
        letGo(&batch)
    }

    @inlinable func deliver(_ batch: inout Batch) {
        for joiner in batch.joined {
            if let snapshot = joiner.snapshot { _ = joiner.member.call(snapshot) }
        }
        // Those who joined have the last positions and are in order, so those who get an element are always a prefix.
        var audience = batch.members.positions - batch.joined.count
        var joined = 0
        for offset in batch.elements.indices {
            // Taken out rather than copied: a retain here would fight over the count with the thread that dispatches.
            guard let element = fluxTake(&batch.elements[offset]) else { continue }
            while joined < batch.joined.count && batch.joined[joined].start < batch.first &+ UInt64(offset) {
                joined += 1
                audience += 1
            }
            var areLive = true
            if audience > 0, let member = batch.members.firstElement { areLive = member.call(element) }
            if audience > 1, !batch.members.callRest(audience - 1, element) { areLive = false }
            // Those who left go now rather than at the end of the batch, which may be far.
            if !areLive {
                _ = owner.step(.purge, id, &batch)
                letGo(&batch)
            }
        }
        batch.elements.removeAll(keepingCapacity: true)
        if !batch.joined.isEmpty { batch.joined = [] }
        for waiter in batch.waiters { waiter.leave() }
        if !batch.waiters.isEmpty { batch.waiters = [] }
    }

    @inlinable func letGo(_ batch: inout Batch) {
        if batch.gone.isEmpty { return }
        for member in batch.gone { member.retire() }
        batch.gone = []
    }
}
