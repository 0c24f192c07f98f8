import Dispatch
import Synchronization

/// Something that waits for its turn on a queue.
@usableFromInline
protocol FluxWakeable: AnyObject, Sendable {
    func wake()
}

/// Delivers what a store announces to the subscriptions on one queue.
///
/// At most one drain of it is scheduled or running at any time; its mailbox sees to that.
@usableFromInline
final class FluxOutlet<State: FluxState>: FluxWakeable {
    @usableFromInline typealias Batch = FluxStoreCore<State>.Machine.Mailbox.Batch

    @usableFromInline let core: FluxStoreCore<State>
    @usableFromInline let id: UInt64
    /// The queue to deliver on; nil: the store's own.
    @usableFromInline let queue: DispatchQueue?
    /// Calls ``drain()`` as the client's module has specialised it.
    @usableFromInline let work: @Sendable (FluxOutlet) -> Void

    /// The subscriber that is being called, as the bits of its address.
    @usableFromInline let called = Synchronization.Atomic<UInt>(0)
    /// The thread that drains, as the bits of the address of its record.
    @usableFromInline let drainer = Synchronization.Atomic<UInt>(0)
    /// Set when somebody left who is in the hands of the drain.
    @usableFromInline let hasLeavers = Synchronization.Atomic<Bool>(false)

    /// After this many batches a drain goes to the end of its queue, so that no store keeps a thread from the others.
    @usableFromInline static var batchesInARow: Int { 16 }

    @inlinable
    init(
        core: FluxStoreCore<State>,
        id: UInt64,
        queue: DispatchQueue?,
        work: @escaping @Sendable (FluxOutlet) -> Void
    ) {
        self.core = core
        self.id = id
        self.queue = queue
        self.work = work
    }

    /// Schedules a drain.
    @usableFromInline
    func wake() {
        (queue ?? core.queue).async { self.work(self) }
    }

    // MARK: - Draining

    @inlinable
    func drain() {
        var batch = Batch()
        drainer.store(UInt(bitPattern: core.threads.current), ordering: .releasing)
        var isDue = core.lock.withLock { $0.begin(&batch, outlet: id) }
        var batches = 0
        while isDue {
            letGo(&batch)
            deliver(&batch)
            batches += 1
            if batches == Self.batchesInARow {
                drainer.store(0, ordering: .releasing)
                core.lock.withLock { $0.pause(&batch, outlet: id) }
                return wake()
            }
            isDue = core.lock.withLock { $0.exchange(&batch, outlet: id) }
        }
        drainer.store(0, ordering: .releasing)
        letGo(&batch)
    }

    @inlinable
    func deliver(_ batch: inout Batch) {
        for joiner in batch.joined {
            if let snapshot = joiner.snapshot { call(joiner.member, with: snapshot) }
        }
        // The slots of those who joined are the last and in order, so those who get an element are always a prefix.
        var audience = batch.members.slots.count - batch.joined.count
        var joined = 0
        for (offset, element) in batch.elements.enumerated() {
            let revision = batch.first &+ UInt64(offset)
            while joined < batch.joined.count && batch.joined[joined].start < revision {
                joined += 1
                audience += 1
            }
            batch.members.slots.withUnsafeBufferPointer { slots in
                for index in 0..<audience {
                    if let member = slots[index].element { call(member, with: element) }
                }
            }
            if hasLeavers.load(ordering: .relaxed) { purge(&batch) }
        }
        called.store(0, ordering: .releasing)
        batch.elements.removeAll(keepingCapacity: true)
        batch.joined.removeAll()
        for waiter in batch.waiters { waiter.leave() }
        batch.waiters.removeAll()
    }

    /// Calls a handler unless its subscription has ended; the mailbox holds the subscriber, so none is retained here.
    @inlinable @inline(__always)
    func call(_ member: Unmanaged<FluxSubscriber<State>>, with state: State) {
        called.store(UInt(bitPattern: member.toOpaque()), ordering: .releasing)
        member._withUnsafeGuaranteedRef { subscriber in
            if subscriber.isLive.load(ordering: .relaxed) { subscriber.handler(state) }
        }
    }

    @inlinable
    func purge(_ batch: inout Batch) {
        called.store(0, ordering: .releasing)
        hasLeavers.store(false, ordering: .relaxed)
        core.lock.withLock { machine in
            _ = machine.withMailbox(id) { $0.purge(&batch) }
        }
        letGo(&batch)
    }

    @inlinable
    func letGo(_ batch: inout Batch) {
        if batch.gone.isEmpty { return }
        for member in batch.gone { member.release() }
        batch.gone.removeAll()
    }

    // MARK: - Leaving

    /// Removes a subscriber that is no longer live; when this returns, no call of its handler begins (C7).
    func remove(_ subscriber: FluxSubscriber<State>) {
        let thread = FluxThreads.shared.current
        if thread.pointee.handling != nil {
            // A token dropped inside handle, with some lock held: it ends now, and is cleared away once there is none.
            DispatchQueue.global().async { _ = self.core.unsubscribe(id: subscriber.id, outlet: self.id) }
            return
        }
        if core.unsubscribe(id: subscriber.id, outlet: id) { return }
        hasLeavers.store(true, ordering: .relaxed)
        if drainer.load(ordering: .acquiring) != UInt(bitPattern: thread) { awaitCall(of: subscriber) }
    }

    /// Waits while another thread may be between its look at `isLive` and the first line of the handler.
    ///
    /// From outside, a handler that has begun cannot be told from one about to, so this waits for the call to return.
    /// But not for long: the handler may be slow, or waiting for the very thread that unsubscribes. A tenth of a second
    /// is far longer than any scheduler keeps a thread from its next instruction.
    private func awaitCall(of subscriber: FluxSubscriber<State>) {
        let bits = UInt(bitPattern: Unmanaged.passUnretained(subscriber).toOpaque())
        // The drain stores `called` without a fence, so it may show a moment late: hence more than one look.
        for _ in 0..<64 where called.load(ordering: .acquiring) == bits {
            let deadline = DispatchTime.now() + .milliseconds(100)
            let never = DispatchSemaphore(value: 0)
            while called.load(ordering: .acquiring) == bits && DispatchTime.now() < deadline {
                _ = never.wait(timeout: .now() + .microseconds(20))
            }
            return
        }
    }
}
