import Dispatch

/// Delivers announced states to the subscriptions of a store on one queue.
///
/// At most one drain is scheduled or running at any time; the mailbox ensures this.
@usableFromInline nonisolated final class FluxStateDelivery<State: FluxState>: FluxSettling, FluxDeliverer {
    @usableFromInline typealias Batch = FluxMailbox<State>.Batch

    @usableFromInline let handle: FluxStoreHandle<State>
    /// The id of its mailbox; the lowest bit means `.latest`: a separate flag would make the object 16 bytes larger.
    @usableFromInline let id: UInt64
    /// The queue to deliver on; nil for the store's own.
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
        // On a queue of the user's, `.latest` makes one call for each turn of that queue.
        let limit = isConflated && queue != nil ? 1 : FluxLimits.batchesInARow
        var batch = Batch()
        for turn in 0...limit {
            let isDue = handle.lock.withLock { access in
                access.mailboxes.step(id, &batch, isPause: turn == limit, current: isConflated ? access.state : nil)
            }
            batch.retire()
            if !isDue { return }
            if turn < limit { deliver(&batch) }
        }
        // A store's own queue is scheduled by way of the pool. Otherwise the thread would continue with the serial
        // queue, and never be given back.
        if queue != nil { settle() } else { DispatchQueue.global().async { self.settle() } }
    }

    @inlinable func deliver(_ batch: inout Batch) {
        for case (let member, let state?) in batch.starters { member.call(state) }
        batch.starters = []
        for offset in batch.states.indices {
            // Taken out rather than copied: a retain would contend for the count with the thread that dispatches.
            guard let state = Swift.exchange(&batch.states[offset], with: nil) else { continue }
            batch.members.call(state, revision: batch.first &+ UInt64(offset))
        }
        batch.states.removeAll(keepingCapacity: true)
        batch.open()
        if batch.isBurst { fluxLinger() }
    }
}

/// What a subscription leaves when it ends: its delivery or, for the plain mailbox, the store's handle.
///
/// The plain mailbox gets its delivery with the first change.
@usableFromInline nonisolated protocol FluxDeliverer: AnyObject, Sendable {
    /// Removes a subscription.
    func leave(_ id: UInt64)
    /// Waits until no call is running.
    func waitForCall() async
}
