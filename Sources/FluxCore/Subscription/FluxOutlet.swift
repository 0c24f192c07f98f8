import Dispatch
import Synchronization

/// Delivers what a store announces to the subscriptions on one queue.
///
/// At most one drain of it is scheduled or running at any time; its mailbox sees to that.
@usableFromInline
nonisolated final class FluxOutlet<State: FluxState>: Sendable {
    @usableFromInline typealias Batch = FluxStoreCore<State>.Machine.Mailbox.Batch

    @usableFromInline let core: FluxStoreCore<State>
    @usableFromInline let id: UInt64
    /// The queue to deliver on; nil: the store's own.
    @usableFromInline let queue: DispatchQueue?
    /// The subscriber that is being called, as the bits of its address.
    @usableFromInline let called = Synchronization.Atomic<UInt>(0)
    /// Touched only by the one thread that was told to schedule a drain, until that drain begins.
    nonisolated(unsafe) private var alarm: DispatchSource?

    @inlinable
    init(core: FluxStoreCore<State>, id: UInt64, queue: DispatchQueue?) {
        self.core = core
        self.id = id
        self.queue = queue
    }

    deinit {
        alarm?.cancel()
    }

    /// Schedules a drain.
    ///
    /// By a dispatch source, made on first use: unlike a block put on the queue it allocates nothing, however often.
    @usableFromInline
    func wake() {
        if alarm == nil { makeAlarm() }
        alarm?.add(data: 1)
    }

    private func makeAlarm() {
        let source = DispatchSource.makeUserDataAddSource(queue: queue ?? core.extras.queue)
        guard let alarm = source as? DispatchSource else {
            fatalError("FluxCore: this system's dispatch sources are of a class of their own: \(type(of: source))")
        }
        // Kept before it has a handler: ThreadSanitizer does not see that a handler runs after the `add(data:)` that
        // woke it, only that it runs after it was set.
        self.alarm = alarm
        // Weakly, or the outlet would never go. While anything is due, its core and it keep each other.
        alarm.setEventHandler { [weak self] in
            if let self { core.work(core, .drain(self)) }
        }
        alarm.activate()
    }

    // MARK: - Draining

    @inlinable
    func drain() {
        let thread = core.threads.current
        let outer = thread.pointee.draining
        thread.pointee.draining = UnsafeRawPointer(fluxIdentity: self)
        defer { thread.pointee.draining = outer }

        var batch = Batch()
        var isDue = core.lock.withLock { $0.begin(&batch, outlet: id) }
        // On a queue of the user's, what conflates is one call for each turn of that queue.
        let limit = batch.isConflated && queue != nil ? 1 : FluxLimits.batchesInARow
        var batches = 0
        while isDue {
            letGo(&batch)
            let (first, count) = (batch.first, batch.elements.count)
            deliver(&batch)
            core.tellDelivered(count, from: first)
            core.tellDropped(batch.dropped)
            batches += 1
            if batches == limit {
                let isDue = core.lock.withLock { $0.pause(&batch, outlet: id) }
                letGo(&batch)
                if !isDue { return }
                // By way of the pool: the thread would go on with its own serial queue, and never be given back.
                return queue == nil ? DispatchQueue.global().async { self.wake() } : wake()
            }
            isDue = core.lock.withLock { $0.exchange(&batch, outlet: id) }
        }
        letGo(&batch)
    }

    @inlinable
    func deliver(_ batch: inout Batch) {
        for joiner in batch.joined {
            if let snapshot = joiner.snapshot { _ = call(joiner.member, with: snapshot) }
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
            if audience > 0, let member = batch.members.firstElement { areLive = call(member, with: element) }
            if audience > 1, !callRest(batch.members.rest, audience - 1, with: element) { areLive = false }
            if !areLive { purge(&batch) }
        }
        if let bound = fluxTake(&batch.overflow) { overflow(bound, &batch) }
        called.store(0, ordering: .releasing)
        batch.elements.removeAll(keepingCapacity: true)
        if !batch.joined.isEmpty { batch.joined = [] }
        if !batch.waiters.isEmpty {
            for waiter in batch.waiters { waiter.leave() }
            batch.waiters = []
        }
    }

    @inlinable
    func callRest(
        _ members: ContiguousArray<FluxSlots<Unmanaged<FluxSubscriber<State>>>.Slot>,
        _ count: Int,
        with element: State
    ) -> Bool {
        members.withUnsafeBufferPointer { slots in
            var areLive = true
            for index in 0..<count {
                if let member = slots[index].element, !call(member, with: element) { areLive = false }
            }
            return areLive
        }
    }

    /// Calls a handler unless its subscription has ended: then it returns false.
    ///
    /// The mailbox holds the subscriber, so none is retained here: that would cost more than the call.
    @inlinable @inline(__always)
    func call(_ member: Unmanaged<FluxSubscriber<State>>, with state: State) -> Bool {
        called.store(UInt(bitPattern: member.toOpaque()), ordering: .releasing)
        return member._withUnsafeGuaranteedRef { subscriber in
            guard subscriber.isLive else { return false }
            switch subscriber.handler {
            case .some(let handler): handler(state)
            case .none: break
            }
            return true
        }
    }

    /// Tells the one member that there was no room for all that it was to get, and ends its subscription.
    @inlinable
    func overflow(_ bound: FluxBound, _ batch: inout Batch) {
        guard case .failing(let handler) = bound.rule, let member = batch.members.firstElement else { return }
        called.store(UInt(bitPattern: member.toOpaque()), ordering: .releasing)
        member._withUnsafeGuaranteedRef { subscriber in
            guard subscriber.isLive else { return }
            handler(FluxOverflow(limit: bound.limit))
            subscriber.cancel()
        }
    }

    /// Lets go of those who left since the batch was handed out, rather than at its end, which may be far.
    @inlinable
    func purge(_ batch: inout Batch) {
        called.store(0, ordering: .releasing)
        core.lock.withLock { machine in
            _ = machine.withMailbox(id) { $0.purge(&batch) }
        }
        letGo(&batch)
    }

    @inlinable
    func letGo(_ batch: inout Batch) {
        if batch.gone.isEmpty { return }
        for member in batch.gone { member.retire() }
        batch.gone = []
    }

    // MARK: - Leaving

    /// Waits while another thread may be between its look at `isLive` and the first line of the handler.
    ///
    /// From outside, a handler that has begun cannot be told from one about to, so this waits for the call to return.
    /// But not for long: the handler may be slow, or waiting for the very thread that unsubscribes.
    ///
    /// On the thread that drains it returns at once.
    @usableFromInline
    func awaitCall(of subscriber: FluxSubscriber<State>, until deadline: DispatchTime) {
        if core.threads.current.pointee.draining == UnsafeRawPointer(fluxIdentity: self) { return }
        let subscriber = UInt(bitPattern: UnsafeRawPointer(fluxIdentity: subscriber))
        let start = DispatchTime.now()
        let never = DispatchSemaphore(value: 0)
        // The drain stores `called` without a fence, so it may show a moment late: a microsecond is ample for that.
        while DispatchTime.now() < start + .microseconds(1) || isCalled(subscriber) {
            if DispatchTime.now() >= deadline { return }
            if isCalled(subscriber) { _ = never.wait(timeout: .now() + .microseconds(20)) }
        }
    }

    private func isCalled(_ subscriber: UInt) -> Bool {
        called.load(ordering: .acquiring) == subscriber
    }
}
