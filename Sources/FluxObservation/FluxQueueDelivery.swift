import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// Delivers elements of any kind to one handler on a queue, in order and never two at once: what a module builds its
/// subscriptions on.
///
/// Values are put under whatever lock orders them, and the queue is woken once that is free, so that none arrives stale:
///
/// ```swift
/// let delivery = FluxQueueDelivery<Change>(on: queue) { change in print(change) }
/// let due = lock.withLock { table in table.change(); return delivery.put(Change(table)) }
/// due?.settle()
/// let token = delivery.token
/// ```
///
/// It hands over all that waits, one after the other, though its queue be suspended in between: who takes so many at a time, as a
/// subscriber of Combine does, keeps a row of their own.
///
/// Thread safety: all of it may be used from any thread, also inside the handler.
nonisolated public final class FluxQueueDelivery<Value: Sendable>: FluxSettling, FluxTurn {
    /// How many elements may wait, and what happens where one more comes.
    ///
    /// Thread safety: a value.
    public enum Bound: Sendable {
        /// Any number may wait.
        case none
        /// Only the newest waits: it takes the place of the one before, which was not handed over.
        case latest
        /// At most so many, at least 1: the oldest goes.
        case newest(Int)
        /// At most so many, at least 1: the new one is left out.
        case oldest(Int)
        /// At most so many, at least 1: the new one is left out, the last element is handed over after what waits, and then
        /// nothing more.
        case failing(Int, last: Value)

        @usableFromInline var limit: Int? {
            switch self {
            case .none: nil
            case .latest: 1
            case .newest(let limit), .oldest(let limit), .failing(let limit, _): limit
            }
        }
    }

    /// What waits, and who hands it over: a pure state machine, with the phases of a mailbox of a store.
    @usableFromInline struct Machine {
        @usableFromInline enum Phase { case idle, scheduled, draining }

        /// In a struct of its own for the lock.
        @usableFromInline struct Handler: Sendable {
            @usableFromInline let call: @Sendable (Value) -> Void

            @inlinable init(call: @escaping @Sendable (Value) -> Void) { self.call = call }
        }

        @usableFromInline let bound: Bound
        /// How many may wait: asked at each change, and slow to find in a generic enumeration.
        @usableFromInline let room: Int
        /// Nil once it has ended and nothing waits.
        @usableFromInline var handler: Handler?
        @usableFromInline var phase = Phase.idle
        /// Whether nothing more comes to wait.
        @usableFromInline var isEnded = false
        @usableFromInline var waiting = FluxWaiting<Value>()
        /// What had to make room: it is the user's, and let go of once no lock is held.
        @usableFromInline var gone: ContiguousArray<Value> = []
        @usableFromInline var dropped = 0
        /// How many have come to wait, ever.
        @usableFromInline var last = 0
        /// Those who wait until so many, of all that ever came, have been handed over; the number of who comes later is no lower.
        @usableFromInline var waiters: ArraySlice<(latch: FluxLatch, number: Int)> = []

        @inlinable init(_ bound: Bound, _ handler: @escaping @Sendable (Value) -> Void) {
            (self.bound, room, self.handler) = (bound, bound.limit ?? .max, Handler(call: handler))
        }

        /// Keeps an element; says whether it needs a turn, and whether something has to be let go of.
        @inlinable mutating func put(_ element: Value) -> (isDue: Bool, hasGone: Bool) {
            var element = element
            if isEnded {
                // What comes behind one that did not fit, before the error is handed over, is left out as well.
                if case .failing = bound, dropped > 0, handler != nil { dropped += 1 }
                gone.append(element)
                return (false, true)
            }
            if waiting.count >= room {
                // The newest takes the number of the one that it replaces: who waits for that waits for this.
                if case .latest = bound { last -= 1 } else { dropped += 1 }
                switch bound {
                case .oldest:
                    gone.append(element)
                    return (false, true)
                case .failing(_, let error):
                    gone.append(element)
                    (element, isEnded) = (error, true)
                case .none, .latest, .newest: if let first = waiting.popFirst() { gone.append(first) }
                }
            }
            waiting.append(element)
            last += 1
            defer { if phase == .idle { phase = .scheduled } }
            return (phase == .idle, !gone.isEmpty)
        }

        /// Goes on after a batch, or at the start: hands out the next, unless nothing waits or the drain pauses.
        ///
        /// A batch is one element where those that wait may still make room for others, and else all of them.
        @inlinable mutating func next(_ batch: inout FluxWaiting<Value>, isPausing: Bool) -> Turn {
            let done = last - waiting.count
            var turn = Turn()
            if !waiters.isEmpty && waiters[waiters.startIndex].number <= done { turn.waiters = takeWaiters(upTo: done) }
            phase = waiting.count == 0 ? .idle : isPausing ? .scheduled : .draining
            (turn.handler, turn.isDue) = (handler, phase == .scheduled)
            if phase == .draining {
                if room == .max { swap(&waiting, &batch) } else { waiting.popFirst().map { batch.append($0) } }
            }
            if isEnded && phase == .idle { handler = nil }
            return turn
        }

        /// Adds somebody who waits until all that waits has been handed over and no call is under way.
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

    /// What a drain does next, outside the lock.
    @usableFromInline struct Turn {
        @usableFromInline var waiters: [FluxLatch] = []
        @usableFromInline var handler: Machine.Handler?
        /// Whether the drain pauses, and is to be scheduled again.
        @usableFromInline var isDue = false

        @inlinable init() {}
    }

    @usableFromInline enum Job { case drain, settle, end, cancel }

    @usableFromInline let lock: FluxLock<Machine>
    @usableFromInline let turns: FluxTurns
    /// Whether no call is decided on any more, whatever has been taken to be handed over.
    @usableFromInline let isCancelled = Synchronization.Atomic<Bool>(false)
    /// How many batches a turn hands over: of one that conflates, one for each turn of a queue of the user's.
    @usableFromInline let limit: Int
    /// Does a job as the module has specialised it that made this.
    private let work: @Sendable (FluxQueueDelivery, Job) -> Bool

    /// Makes a delivery to a handler.
    ///
    /// - Parameters:
    ///   - queue: Where to call the handler; nil: on a serial queue of its own.
    ///   - bound: How many elements may wait.
    ///   - first: What to hand over first of all; nil for nothing.
    ///   - handler: Gets the elements; let go of after the end.
    @inlinable public convenience init(
        on queue: DispatchQueue? = nil, bound: Bound = .none, startingWith first: Value? = nil,
        _ handler: @escaping @Sendable (Value) -> Void
    ) {
        self.init(FluxTurns(queue, isUsers: queue != nil), bound, handler)
        if let first { put(first)?.settle() }
    }

    /// Makes a delivery that takes its turns with others.
    @inlinable convenience init(
        _ turns: FluxTurns, _ bound: Bound, _ handler: @escaping @Sendable (Value) -> Void
    ) {
        // With a bound each batch is one element, so that more of them make a turn.
        var limit = bound.limit == nil ? 16 : 1024
        if turns.isUsers, case .latest = bound { limit = 1 }
        self.init(turns, bound, limit, handler) { delivery, job in
            if job == .drain { return delivery.drain() }
            if job == .settle { delivery.letGo() } else { delivery.end(dropping: job == .cancel) }
            return true
        }
    }

    @usableFromInline init(
        _ turns: FluxTurns, _ bound: Bound, _ limit: Int, _ handler: @escaping @Sendable (Value) -> Void,
        work: @escaping @Sendable (FluxQueueDelivery, Job) -> Bool
    ) {
        _ = bound.limit.map(FluxBuffered.checked)
        (self.turns, self.limit, self.work) = (turns, limit, work)
        lock = FluxLock(Machine(bound, handler))
    }

    // MARK: - Putting

    /// Puts an element behind those that wait.
    ///
    /// - Parameter element: What to hand over.
    /// - Returns: Who has to be settled once the caller holds no lock; nil: nobody, as it is awake already.
    /// - Complexity: O(1), amortised.
    @inlinable public func put(_ element: Value) -> (any FluxSettling)? {
        let (isDue, hasGone) = lock.withLock { $0.put(element) }
        let isFirst = isDue && turns.add(self)
        return hasGone ? self : isFirst ? turns : nil
    }

    /// Schedules the handing over of what was put; done for who settles what ``put(_:)`` returned.
    public func settle() { _ = work(self, .settle) }

    /// Lets go of what had no room, and schedules what has.
    @inlinable func letGo() {
        let gone = lock.withLock { Swift.exchange(&$0.gone, with: []) }
        turns.settle()
        withExtendedLifetime(gone) {}
    }

    /// How many elements were not handed over because there was no room for them.
    public var dropped: Int { lock.withLock { $0.dropped } }

    // MARK: - Ending

    /// Ends after what waits has been handed over.
    public func end() { _ = work(self, .end) }

    /// Ends without waiting: what waits is let go of (C7).
    public func cancel() {
        // Relaxed, as where a subscription ends: on its own queue and in the handler that orders the two.
        isCancelled.store(true, ordering: .relaxed)
        _ = work(self, .cancel)
    }

    @inlinable func end(dropping isDropping: Bool) {
        let (gone, waiters) = lock.withLock { machine in
            let old = (machine.waiting, machine.handler)
            var waiters: ArraySlice<(latch: FluxLatch, number: Int)> = []
            machine.isEnded = true
            if isDropping { machine.waiting = FluxWaiting() }
            if machine.waiting.count == 0 { machine.handler = nil }
            // Nobody waits for a queue that may never run.
            if machine.waiting.count == 0 && machine.phase != .draining { swap(&waiters, &machine.waiters) }
            return (old, waiters)
        }
        for (latch, _) in waiters { latch.open() }
        FluxPureCode.after { withExtendedLifetime(gone) {} }
    }

    /// A token that ends it when it goes.
    public var token: FluxSubscription {
        FluxSubscription({ self.cancel() }, finish: { await self.finish() }, dropped: { self.dropped })
    }

    /// Ends, and waits until the last call of the handler is over.
    public func finish() async {
        cancel()
        // Nothing waits any more, and nothing will.
        await flush()
    }

    /// Waits until all that was put before has been handed over or dropped by its bound, or the task is cancelled.
    public func flush() async {
        await FluxLatch.wait { latch in
            lock.withLock { $0.wait(latch) }
        } withdrawing: { latch in
            // Whoever opens it has taken it out, and to look for it would go past all others.
            if _Concurrency.Task.isCancelled { lock.withLock { $0.waiters.removeAll { $0.latch === latch } } }
        }
    }

    // MARK: - Handing over

    @usableFromInline func takeTurn() -> Bool { work(self, .drain) }

    /// Hands over what waits; false: it paused.
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
