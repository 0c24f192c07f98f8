import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// Delivers elements to one handler on a queue, in order and one at a time: the base of a module's own subscriptions.
///
/// Put each value while holding the lock that orders the values, and settle once that lock is free. This
/// way, no value arrives stale:
///
/// ```swift
/// let delivery = FluxQueueDelivery<Change>(on: queue) { change in print(change) }
/// let due = lock.withLock { table in table.change(); return delivery.put(Change(table)) }
/// due?.settle()
/// let token = delivery.token
/// ```
///
/// It delivers all waiting elements, one after another, even if its queue is suspended in between. A consumer that
/// takes a limited number at a time, such as a Combine subscriber, keeps its own waiting list.
///
/// Thread safety: may be used from any thread, including inside the handler.
nonisolated public final class FluxQueueDelivery<Value: Sendable>: FluxSettling, FluxTurn {
    /// How many elements may wait, and what happens when another arrives.
    ///
    /// Thread safety: a value.
    public enum Bound: Sendable {
        /// Any number may wait.
        case none
        /// Only the newest element waits: it replaces the one before, which was not delivered.
        case latest
        /// At most this many elements wait, at least 1; if another arrives, the oldest is dropped.
        case newest(Int)
        /// At most this many elements wait, at least 1; if another arrives, it is dropped.
        case oldest(Int)
        /// At most this many elements wait, at least 1; if another arrives, it is dropped, the waiting ones are
        /// delivered, then `last`, then nothing.
        case failing(Int, last: Value)

        @usableFromInline var limit: Int? {
            switch self {
            case .none: nil
            case .latest: 1
            case .newest(let limit), .oldest(let limit), .failing(let limit, _): limit
            }
        }
    }

    /// The waiting elements and the phase of their drain: a pure state machine, with the phases of a store's mailbox.
    @usableFromInline struct Machine {
        @usableFromInline enum Phase { case idle, scheduled, draining }

        /// Wraps the closure: an optional closure guarded by a lock would grow a chain of thunks at each use.
        @usableFromInline struct Handler: Sendable {
            @usableFromInline let call: @Sendable (Value) -> Void

            @inlinable init(call: @escaping @Sendable (Value) -> Void) { self.call = call }
        }

        @usableFromInline let bound: Bound
        /// How many elements may wait; stored, because each change checks it and reading it
        /// from a generic enum is slow.
        @usableFromInline let room: Int
        /// Nil once the delivery has ended and nothing waits.
        @usableFromInline var handler: Handler?
        @usableFromInline var phase = Phase.idle
        /// Whether further elements are rejected.
        @usableFromInline var isEnded = false
        @usableFromInline var waiting = FluxWaiting<Value>()
        /// The dropped elements: they are the user's, and are released once no lock is held.
        @usableFromInline var gone: ContiguousArray<Value> = []
        @usableFromInline var dropped = 0
        /// How many elements have ever been queued, which is also the number of the newest one.
        @usableFromInline var last = 0
        /// The tasks that wait until this many of all elements ever queued are delivered; the numbers never decrease.
        @usableFromInline var waiters: ArraySlice<(latch: FluxLatch, number: Int)> = []

        @inlinable init(_ bound: Bound, _ handler: @escaping @Sendable (Value) -> Void) {
            (self.bound, room, self.handler) = (bound, bound.limit ?? .max, Handler(call: handler))
        }

        /// Keeps an element; returns whether the delivery needs a turn, and whether there are elements to release.
        @inlinable @inline(__always) mutating func put(_ element: Value) -> (isDue: Bool, hasGone: Bool) {
            var element = element
            if (isEnded || waiting.count >= room) && !makeRoom(for: &element) { return (false, true) }
            waiting.append(element)
            last += 1
            defer { if phase == .idle { phase = .scheduled } }
            return (phase == .idle, !gone.isEmpty)
        }

        /// Makes room for an element, which it may replace by the error; returns false if the element is dropped.
        @inlinable @inline(never) mutating func makeRoom(for element: inout Value) -> Bool {
            if isEnded {
                // An element that follows one without room, before the error is delivered, counts as dropped too.
                if case .failing = bound, dropped > 0, handler != nil { dropped += 1 }
                gone.append(element)
                return false
            }
            // The newest takes the number of the one that it replaces: a task that waits for
            // that one waits for this one.
            if case .latest = bound { last -= 1 } else { dropped += 1 }
            switch bound {
            case .oldest:
                gone.append(element)
                return false
            case .failing(_, let error):
                gone.append(element)
                (element, isEnded) = (error, true)
            case .none, .latest, .newest: if let first = waiting.popFirst() { gone.append(first) }
            }
            return true
        }

        /// Advances the drain, at its start and after each batch: takes the next batch, unless
        /// nothing waits or the drain pauses.
        ///
        /// With a bound, a batch is one element, because waiting elements may still make room for others;
        /// otherwise it is all of them.
        ///
        /// The result says what to do outside the lock: the latches to open, the handler of the batch, and whether the
        /// drain pauses and must be scheduled again.
        @inlinable mutating func next(
            _ batch: inout FluxWaiting<Value>, isPausing: Bool
        ) -> (waiters: [FluxLatch], handler: Handler?, isDue: Bool) {
            let done = last - waiting.count
            let hasDone = !waiters.isEmpty && waiters[waiters.startIndex].number <= done
            phase = waiting.count == 0 ? .idle : isPausing ? .scheduled : .draining
            if phase == .draining {
                if room == .max { swap(&waiting, &batch) } else { waiting.popFirst().map { batch.append($0) } }
            }
            defer { if isEnded && phase == .idle { handler = nil } }
            return (hasDone ? takeWaiters(upTo: done) : [], handler, phase == .scheduled)
        }

        /// Adds a latch that opens once all waiting elements are delivered and no call is running;
        /// returns nil if that is so already.
        mutating func wait(_ latch: FluxLatch) -> FluxLatch? {
            if phase != .draining && waiting.count == 0 { return nil }
            waiters.append((latch, last))
            return latch
        }

        @usableFromInline mutating func takeWaiters(upTo done: Int) -> [FluxLatch] {
            let due = waiters.prefix { $0.number <= done }.map { $0.latch }
            waiters = due.count == waiters.count ? [] : waiters.dropFirst(due.count)
            return due
        }
    }

    @usableFromInline enum Job { case drain, settle, end, cancel }

    @usableFromInline let lock: FluxLock<Machine>
    @usableFromInline let turns: FluxTurns
    /// How many batches a turn delivers at most; with `latest` on a user's queue, one per turn of that queue.
    @usableFromInline let limit: Int
    /// Does a job in the code specialised by the module that created the delivery.
    @usableFromInline let work: @Sendable (FluxQueueDelivery, Job) -> Bool
    /// Whether no further call is decided on, even for elements already taken for delivery.
    @usableFromInline let isCancelled = Synchronization.Atomic<Bool>(false)

    /// Creates a delivery to a handler.
    ///
    /// - Parameters:
    ///   - queue: The queue to call the handler on; nil for the delivery's own serial queue.
    ///   - bound: How many elements may wait.
    ///   - first: An element to deliver before all others; nil for none.
    ///   - handler: Receives the elements; released after the end.
    @inlinable public convenience init(
        on queue: DispatchQueue? = nil, bound: Bound = .none, startingWith first: Value? = nil,
        _ handler: @escaping @Sendable (Value) -> Void
    ) {
        self.init(FluxTurns(queue, isUsers: queue != nil), bound, handler)
        if let first { put(first)?.settle() }
    }

    /// Creates a delivery that shares its turns with others.
    @inlinable init(_ turns: FluxTurns, _ bound: Bound, _ handler: @escaping @Sendable (Value) -> Void) {
        _ = bound.limit.map(FluxBuffered.checked)
        self.turns = turns
        // With a bound each batch is one element, so a turn takes more batches.
        if turns.isUsers, case .latest = bound { limit = 1 } else { limit = bound.limit == nil ? 16 : 1024 }
        lock = FluxLock(Machine(bound, handler))
        work = { delivery, job in
            if job == .drain { return delivery.drain() }
            if job == .settle { delivery.releaseAndSchedule() } else { delivery.end(dropping: job == .cancel) }
            return true
        }
    }

    // MARK: - Putting

    /// Appends an element to those that wait.
    ///
    /// - Parameter element: The element to deliver.
    /// - Returns: The object to settle once the caller holds no lock; nil if there is none, because
    ///   the delivery is already awake.
    /// - Complexity: O(1), amortised.
    @inlinable public func put(_ element: Value) -> (any FluxSettling)? {
        let (isDue, hasGone) = lock.withLock { $0.put(element) }
        let isFirst = isDue && turns.add(self)
        return hasGone ? self : isFirst ? turns : nil
    }

    /// Schedules the delivery of the elements that were put; settling the result of ``put(_:)`` does this.
    public func settle() { _ = work(self, .settle) }

    /// Releases the elements that had no room, and schedules the delivery of the others.
    @inlinable func releaseAndSchedule() {
        let gone = lock.withLock { Swift.exchange(&$0.gone, with: []) }
        turns.settle()
        withExtendedLifetime(gone) {}
    }

    /// The number of elements dropped for lack of room.
    public var dropped: Int { lock.withLock { $0.dropped } }

    // MARK: - Ending

    /// Ends the delivery after the waiting elements have been delivered.
    public func end() { _ = work(self, .end) }

    /// Ends the delivery without waiting, and releases the waiting elements (C7).
    public func cancel() {
        // Relaxed, as when a subscription ends: on its own serial queue and inside the handler, calls and
        // cancelling are ordered anyway.
        isCancelled.store(true, ordering: .relaxed)
        _ = work(self, .cancel)
    }

    @inlinable func end(dropping isDropping: Bool) {
        let (gone, waiters) = lock.withLock { machine in
            let old = (isDropping ? Swift.exchange(&machine.waiting, with: FluxWaiting()) : nil, machine.handler)
            machine.isEnded = true
            if machine.waiting.count == 0 { machine.handler = nil }
            // Opened now: no task may wait for a queue that may never run.
            let isOver = machine.waiting.count == 0 && machine.phase != .draining && !machine.waiters.isEmpty
            return (old, isOver ? machine.takeWaiters(upTo: machine.last) : [])
        }
        // A token that is released while a lock is held ends its delivery there.
        FluxPureCode.after { withExtendedLifetime(gone) { for latch in waiters { latch.open() } } }
    }

    /// A token that ends the delivery when the token is released.
    public var token: FluxSubscription {
        FluxSubscription({ self.cancel() }, finish: { await self.finish() }, dropped: { self.dropped })
    }

    /// Ends the delivery and waits until the last call of the handler is over, or the task is cancelled.
    public func finish() async {
        cancel()
        // No element waits any longer, and none will.
        await flush()
    }

    /// Waits until all elements put before have been delivered or dropped by the bound, or the task is cancelled.
    public func flush() async {
        await FluxLatch.wait { latch in
            lock.withLock { $0.wait(latch) }
        } withdrawing: { latch in
            // An opened latch was taken out already, and searching for it would go past all others.
            if _Concurrency.Task.isCancelled { lock.withLock { $0.waiters.removeAll { $0.latch === latch } } }
        }
    }

    // MARK: - Delivering

    @usableFromInline func takeTurn() -> Bool { work(self, .drain) }

    /// Delivers the waiting elements; returns false if it paused.
    @inlinable func drain() -> Bool {
        var batch = FluxWaiting<Value>()
        for count in 0...limit {
            let turn = lock.withLock { $0.next(&batch, isPausing: count == limit) }
            for latch in turn.waiters { latch.open() }
            if batch.count == 0 { return !turn.isDue }
            let isBurst = batch.count > 1
            while let element = batch.popFirst() {
                // Relaxed: see cancel().
                if !isCancelled.load(ordering: .relaxed) { turn.handler?.call(element) }
            }
            if isBurst { FluxTurns.linger() }
        }
        return true
    }
}
