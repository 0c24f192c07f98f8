#if canImport(FluxCore)
    import FluxCore
#endif

/// What waits for one iterator: a pure state machine.
///
/// | input    | nothing waits                 | something waits                 | over                         |
/// |----------|-------------------------------|---------------------------------|------------------------------|
/// | `push`   | kept; settle                  | kept, as the rule has it        | goes; settle                 |
/// | `take`   | nil                           | the first; by `latest`, the one | the end, after what waits    |
/// | `wait`   | kept until there is something | not kept: there is something    | not kept                     |
/// | `finish` | over; settle                  | over, after what waits          | nothing                      |
/// | `cancel` | over; settle                  | over at once; settle            | over at once; settle         |
/// | `settle` | the iterator to be woken, if one waits, and what has to go: both outside the lock                        |
nonisolated struct FluxChannelMachine<Element, Waiter> {
    enum Taken {
        case element(Element)
        case end(FluxOverflow?)
    }

    private let rule: FluxBuffered.Rule
    /// What waits: that which came since the last of `older` was taken, and before it `older`, the oldest last.
    private var newer: [Element] = []
    private var older: [Element] = []
    /// What has to go.
    private var gone: [Element] = []
    private var waiter: Waiter?
    /// What comes after what waits, once it is over.
    private var end: Taken?
    /// How many elements were dropped for want of room.
    private(set) var dropped = 0

    init(_ rule: FluxBuffered.Rule) {
        self.rule = rule
    }

    private var count: Int { older.count + newer.count }

    /// Keeps an element as the rule has it; true: settle.
    mutating func push(_ element: Element) -> Bool {
        newer.append(element)
        switch rule {
        case _ where end != nil: gone.append(newer.removeLast())
        case .latest where count > 1: drop(pop())
        case .newest(let room) where count > room: drop(pop())
        case .oldest(let room) where count > room: drop(newer.popLast())
        case .failing(let room) where count > room:
            drop(newer.popLast())
            finish(FluxOverflow(limit: room))
        default: break
        }
        return waiter != nil || !gone.isEmpty
    }

    mutating func take() -> Taken? {
        if let element = pop() { return .element(element) }
        // An error is thrown once.
        defer { if end != nil { end = .end(nil) } }
        return end
    }

    /// Keeps an iterator that found nothing; false: it has to look again.
    mutating func wait(_ iterator: Waiter) -> Bool {
        if count > 0 || end != nil { return false }
        waiter = iterator
        return true
    }

    /// Ends it after what waits.
    mutating func finish(_ error: FluxOverflow? = nil) {
        if end == nil { end = .end(error) }
    }

    /// Ends it at once.
    mutating func cancel() {
        gone += older + newer
        (older, newer, end) = ([], [], .end(nil))
    }

    mutating func settle() -> (wake: Waiter?, gone: [Element]) {
        defer { (waiter, gone) = (nil, []) }
        return (waiter, gone)
    }

    private mutating func drop(_ element: Element?) {
        if rule != .latest { dropped += 1 }
        if let element { gone.append(element) }
    }

    private mutating func pop() -> Element? {
        if older.isEmpty {
            swap(&older, &newer)
            older.reverse()
        }
        return older.popLast()
    }
}

/// Hands what it is given to one iterator, which need not take it as fast.
nonisolated final class FluxChannel<Element: Sendable>: FluxTapDelivery, FluxSettling {
    typealias Machine = FluxChannelMachine<Element, FluxLatch>

    private let lock: FluxLock<Machine>

    init(_ rule: FluxBuffered.Rule) {
        lock = FluxLock(Machine(rule))
    }

    var dropped: Int { lock.withLock { $0.dropped } }

    /// Puts an element behind those that wait; returns whom to settle once no lock is held.
    func put(_ element: Element) -> (any FluxSettling)? {
        lock.withLock { $0.push(element) } ? self : nil
    }

    /// Takes the next element, and waits for it if there is none.
    func next(isolation actor: isolated (any _Concurrency.Actor)?) async -> Machine.Taken {
        while true {
            if _Concurrency.Task.isCancelled { cancel() }
            if let taken = lock.withLock({ $0.take() }) { return taken }
            await FluxLatch.wait { latch in
                lock.withLock { $0.wait(latch) } ? () : nil
            } withdrawing: {
                settle()
            }
        }
    }

    func settle() {
        let (wake, gone) = lock.withLock { $0.settle() }
        wake?.open()
        withExtendedLifetime(gone) {}
    }

    func end() {
        lock.withLock { $0.finish() }
        settle()
    }

    func cancel() {
        lock.withLock { $0.cancel() }
        settle()
    }

    var token: FluxSubscription { FluxSubscription({ self.cancel() }, dropped: { self.dropped }) }

    func flush() async {}
}
