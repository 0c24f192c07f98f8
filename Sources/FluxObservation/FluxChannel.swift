#if canImport(FluxCore)
    import FluxCore
#endif

/// What waits for one iterator: a pure state machine.
///
/// | input    | nothing waits                 | something waits                 | over                         |
/// |----------|-------------------------------|---------------------------------|------------------------------|
/// | `push`   | kept; wakes the iterator      | kept, as the rule has it        | nothing                      |
/// | `take`   | empty                         | the first; by `latest`, the one | the end, after what waits    |
/// | `wait`   | kept until there is something | not kept: there is something    | not kept                     |
/// | `finish` | over; wakes the iterator      | over, after what waits          | nothing                      |
/// | `cancel` | over; wakes the iterator      | over at once                    | over at once                 |
nonisolated struct FluxChannelMachine<Element, Waiter> {
    enum Taken {
        case empty
        case element(Element)
        case end(FluxOverflow?)
    }

    private let rule: FluxBuffered.Rule
    private var waiting: ContiguousArray<Element?> = []
    /// The position of the first element that waits; before it are empty places.
    private var head = 0
    private var waiter: Waiter?
    private var isOver = false
    private var error: FluxOverflow?
    /// How many elements were dropped for want of room.
    private(set) var dropped = 0

    init(_ rule: FluxBuffered.Rule) {
        self.rule = rule
    }

    private var count: Int { waiting.count - head }

    /// Keeps an element as the rule has it; returns the iterator to be woken, and what has to go, outside the lock.
    mutating func push(_ element: Element) -> (wake: Waiter?, remains: Element?) {
        if isOver { return (nil, element) }
        var remains: Element?
        switch rule {
        case .every: break
        case .latest: if count > 0 { remains = pop() }
        case .newest(let room): if count >= room { (remains, dropped) = (pop(), dropped + 1) }
        case .oldest(let room) where count >= room:
            dropped += 1
            return (nil, element)
        case .failing(let room) where count >= room:
            dropped += 1
            return (finish(FluxOverflow(limit: room)), element)
        case .oldest, .failing: break
        }
        waiting.append(element)
        return (takeWaiter(), remains)
    }

    mutating func take() -> Taken {
        if count > 0, let element = pop() { return .element(element) }
        if !isOver { return .empty }
        defer { error = nil }
        return .end(error)
    }

    /// Keeps an iterator that found nothing; false: it has to look again.
    mutating func wait(_ iterator: Waiter) -> Bool {
        if count > 0 || isOver { return false }
        waiter = iterator
        return true
    }

    /// Ends it after what waits; returns the iterator to be woken.
    mutating func finish(_ error: FluxOverflow? = nil) -> Waiter? {
        if isOver { return nil }
        isOver = true
        self.error = error
        return takeWaiter()
    }

    /// Ends it at once; returns the iterator to be woken, and what has to go, outside the lock.
    mutating func cancel() -> (wake: Waiter?, remains: ContiguousArray<Element?>) {
        var remains: ContiguousArray<Element?> = []
        swap(&remains, &waiting)
        (head, isOver, error) = (0, true, nil)
        return (takeWaiter(), remains)
    }

    /// Takes out the iterator that waits.
    mutating func takeWaiter() -> Waiter? {
        defer { waiter = nil }
        return waiter
    }

    private mutating func pop() -> Element? {
        var element: Element?
        swap(&element, &waiting[head])
        head += 1
        if head == waiting.count {
            waiting.removeAll(keepingCapacity: waiting.capacity <= 1 << 16)
            head = 0
        } else if head >= 16 && head * 2 >= waiting.count {
            waiting.removeFirst(head)
            head = 0
        }
        return element
    }
}

/// Hands what a subscription got to one iterator, which need not take it as fast.
nonisolated final class FluxChannel<Element: Sendable>: Sendable {
    typealias Machine = FluxChannelMachine<Element, FluxLatch>

    private let lock: FluxLock<Machine>

    init(_ rule: FluxBuffered.Rule) {
        lock = FluxLock(Machine(rule))
    }

    var dropped: Int { lock.withLock { $0.dropped } }

    func push(_ element: Element) {
        lock.withLock { $0.push(element) }.wake?.open()
    }

    /// What the handler of a subscription captures.
    func input() -> Input {
        Input(self)
    }

    /// Takes the next element, and waits for it if there is none.
    func next(isolation actor: isolated (any _Concurrency.Actor)?) async -> Machine.Taken {
        while true {
            if _Concurrency.Task.isCancelled { lock.withLock { $0.cancel() }.wake?.open() }
            let taken = lock.withLock { $0.take() }
            guard case .empty = taken else { return taken }
            await FluxLatch.wait { latch in
                latch.enter()
                return lock.withLock { $0.wait(latch) } ? () : nil
            } withdrawing: {
                _ = lock.withLock { $0.takeWaiter() }
            }
        }
    }

    /// Fills a channel, and ends it when it is let go of: nothing more can come then.
    final class Input: Sendable {
        private let channel: FluxChannel

        init(_ channel: FluxChannel) {
            self.channel = channel
        }

        deinit {
            channel.lock.withLock { $0.finish() }?.open()
        }

        func push(_ element: Element) {
            channel.push(element)
        }
    }
}
