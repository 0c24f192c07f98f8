import Dispatch

/// Delivers what is announced to the subscriptions of a store on one queue.
///
/// At most one drain of it is scheduled or running at any time; its mailbox sees to that.
@usableFromInline nonisolated final class FluxStateDelivery<State: FluxState>: FluxSettling, FluxLeaving {
    @usableFromInline typealias Batch = FluxMailbox<State>.Batch

    @usableFromInline let handle: FluxStoreHandle<State>
    /// Its lowest bit says whether it delivers the newest state only: beside it the object would be 16 bytes larger.
    @usableFromInline let id: UInt64
    /// The queue to deliver on; nil: the store's own.
    @usableFromInline let queue: DispatchQueue?

    @inlinable init(_ handle: FluxStoreHandle<State>, id: UInt64, queue: DispatchQueue?) {
        (self.handle, self.queue, self.id) = (handle, queue, id)
    }

    @inlinable var isConflated: Bool { id & 1 == 1 }

    /// Schedules a drain.
    @usableFromInline func settle() {
        (queue ?? handle.queue).async { _ = self.handle.work(self.handle, .drain(self)) }
    }

    @usableFromInline func leave(_ id: UInt64) { _ = handle.work(handle, .leave(id, self.id)) }

    @usableFromInline func waitForCall() async { await handle.wait(for: id, forCall: true) }

    @inlinable func drain() {
        // On a queue of the user's, what conflates is one call for each turn of that queue.
        let limit = isConflated && queue != nil ? 1 : FluxLimits.batchesInARow
        var batch = Batch()
        for turn in 0...limit {
            let isDue = handle.lock.withLock { machine in
                machine.mailboxes.step(id, &batch, isPause: turn == limit, current: isConflated ? machine.state : nil)
            }
            batch.retire()
            if !isDue { return }
            if turn < limit { deliver(&batch) }
        }
        // One of the stores' own by way of their pool: the thread would go on with the serial queue, and never be given back.
        if queue != nil { settle() } else { DispatchQueue.global().async { self.settle() } }
    }

    @inlinable func deliver(_ batch: inout Batch) {
        for case (let member, let state?) in batch.starters { member.call(state) }
        batch.starters = []
        for offset in batch.states.indices {
            // Taken out rather than copied: a retain here would fight over the count with the thread that dispatches.
            guard let state = Swift.exchange(&batch.states[offset], with: nil) else { continue }
            batch.members.call(state, revision: batch.first &+ UInt64(offset))
        }
        batch.states.removeAll(keepingCapacity: true)
        batch.open()
        if batch.isBurst { fluxLinger() }
    }
}

/// What ends a subscription: what delivers to it, or the store that it is one of, if a mailbox has no delivery of its own.
@usableFromInline nonisolated protocol FluxLeaving: AnyObject, Sendable {
    /// Takes a subscription out.
    func leave(_ id: UInt64)
    /// Waits until no call is under way.
    func waitForCall() async
}
