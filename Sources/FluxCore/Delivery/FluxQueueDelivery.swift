import Dispatch

/// Delivers elements of any kind to one handler on a queue, in order and never two at once: what a module builds its
/// subscriptions on.
///
/// It is a mailbox with a lock of its own. Values are put under whatever lock orders them, and the queue is woken once
/// that is free, so that none arrives stale:
///
/// ```swift
/// let delivery = FluxQueueDelivery<Change>(on: queue) { change in print(change) }
/// let due = lock.withLock { table in table.change(); return delivery.put(Change(table)) }
/// due?.settle()
/// let token = FluxSubscription(delivery)
/// ```
///
/// Thread safety: all of it may be used from any thread, also inside the handler.
nonisolated public final class FluxQueueDelivery<Value: Sendable>: FluxMailboxOwner, FluxCancellable {
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

        @inlinable var limit: Int? {
            switch self {
            case .none, .latest: nil
            case .newest(let limit), .oldest(let limit), .failing(let limit, _): limit
            }
        }
    }

    @usableFromInline typealias Element = Value
    @usableFromInline typealias Mailboxes = FluxMailboxes<FluxQueueDelivery>

    @usableFromInline struct Machine {
        @usableFromInline var mailboxes = Mailboxes()
        /// By the bound `latest`, the newest element.
        @usableFromInline var current: Value?
        @usableFromInline var dropped = 0

        @inlinable init() {}
    }

    @usableFromInline let lock = FluxLock(Machine())
    @usableFromInline let bound: Bound
    private let subscriber = FluxLock<FluxSubscriber<FluxQueueDelivery>?>(nil)
    @usableFromInline let ownQueue: DispatchQueue
    /// Calls the drain as the module has specialised it that made this.
    @usableFromInline let work: @Sendable (FluxOutlet<FluxQueueDelivery>) -> Void

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
        self.init(queue, bound, first, handler) { $0.drain() }
    }

    @usableFromInline init(
        _ queue: DispatchQueue?, _ bound: Bound, _ first: Value?, _ handler: @escaping @Sendable (Value) -> Void,
        work: @escaping @Sendable (FluxOutlet<FluxQueueDelivery>) -> Void
    ) {
        let room = bound.limit ?? 1
        fluxRequire(room > 0, "a delivery with room for \(room) changes delivers none. Give it room for 1 at least.")
        (ownQueue, self.bound, self.work) = (queue ?? fluxQueue("FluxQueueDelivery"), bound, work)
        let rule: Mailboxes.Mailbox.Rule =
            if case .latest = bound { .latest } else { bound.limit == nil ? .every : .single }
        let (made, due) = lock.withLock { machine in
            machine.current = first
            return machine.mailboxes.join(self, rule, on: queue, snapshot: first, handler)
        }
        subscriber.withLock { $0 = made }
        due?.settle()
    }

    // MARK: - Putting

    /// Puts an element behind those that wait.
    ///
    /// - Parameter element: What to hand over.
    /// - Returns: Who has to be settled once the caller holds no lock; nil: nobody, as it is awake already.
    /// - Complexity: O(1), amortised.
    @inlinable public func put(_ element: Value) -> (any FluxSettling)? {
        // What goes is the user's, and let go of outside the lock.
        var gone: Value?
        var wakes = FluxWakes.none
        lock.withLock { machine in
            if machine.mailboxes.isEnded {
                // What comes behind one that did not fit, before the error is handed over, is left out as well.
                if machine.dropped > 0, !machine.mailboxes.entries.isEmpty, case .failing = bound {
                    machine.dropped += 1
                }
                return
            }
            var element = element
            var isLast = false
            if let limit = bound.limit, waiting(machine) >= limit {
                machine.dropped += 1
                switch bound {
                case .none, .latest: break
                case .newest: machine.mailboxes.entries.updateEach { gone = $0.mailbox.popFirst() }
                case .oldest: return
                case .failing(_, let last): (element, isLast) = (last, true)
                }
            }
            if case .latest = bound { (gone, machine.current) = (machine.current, element) }
            machine.mailboxes.newest &+= 1
            machine.mailboxes.announce(element, &wakes)
            if isLast { _ = machine.mailboxes.end() }
        }
        withExtendedLifetime(gone) {}
        if case .one(let sleeper) = wakes { return sleeper }
        return nil
    }

    @inlinable func waiting(_ machine: borrowing Machine) -> Int {
        machine.mailboxes.entries.firstElement?.mailbox.waiting ?? 0
    }

    /// How many elements were not handed over because there was no room for them.
    public var dropped: Int { lock.withLock { $0.dropped } }

    // MARK: - Ending

    /// Ends after what waits has been handed over.
    public func end() { lock.withLock { $0.mailboxes.end() }.letGo() }

    /// Ends without waiting: what waits is let go of (C7).
    public func cancel() {
        subscriber.withLock { $0 }?.cancel()
        let gone = lock.withLock { machine in
            machine.mailboxes.isEnded = true
            return fluxTake(&machine.current)
        }
        withExtendedLifetime(gone) {}
    }

    /// Ends, and waits until the last call of the handler is over.
    public func finish() async {
        cancel()
        await subscriber.withLock { $0 }?.finish()
    }

    /// Waits until all that was put before has been handed over, or the task is cancelled.
    public func flush() async { await flushMailboxes() }

    // MARK: - Support

    @usableFromInline func withMailboxes<Result>(_ body: (inout Mailboxes) -> Result) -> Result {
        lock.withLock { body(&$0.mailboxes) }
    }

    @inlinable func step(_ step: FluxDrainStep, _ outlet: UInt64, _ batch: inout FluxBatch<FluxQueueDelivery>) -> Bool {
        lock.withLock { machine in
            machine.mailboxes.step(step, outlet, &batch, current: batch.isConflated ? machine.current : nil)
        }
    }

    @usableFromInline func drain(_ outlet: FluxOutlet<FluxQueueDelivery>) { work(outlet) }

    @usableFromInline func leave(_ id: UInt64, _ outlet: FluxOutlet<FluxQueueDelivery>) {
        lock.withLock { $0.mailboxes.leave(id, outlet: outlet.id) }.letGo()
    }
}
