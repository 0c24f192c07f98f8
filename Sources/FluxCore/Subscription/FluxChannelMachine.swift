/// What waits for one iterator: a pure state machine.
///
/// | input    | nothing waits                 | something waits                | over                         |
/// |----------|-------------------------------|--------------------------------|------------------------------|
/// | `push`   | kept; wakes the iterator      | kept, as the rule has it       | nothing                      |
/// | `take`   | empty                         | the first; by `latest`, the one | the end, after what waits   |
/// | `wait`   | kept until there is something | not kept: there is something   | not kept                     |
/// | `finish` | over; wakes the iterator      | over, after what waits         | nothing                      |
/// | `cancel` | over; wakes the iterator      | over at once                   | over at once                 |
nonisolated struct FluxChannelMachine<Element, Waiter> {
    enum Taken {
        case empty
        /// The first of what waits; nil: there is something new, to be read where it is.
        case element(Element?)
        case end((any Error)?)
    }

    private let rule: FluxDelivery.Kind
    /// By the rule `every`, how many elements may wait before it ends with an error.
    private let limit: Int
    private var waiting: ContiguousArray<Element?> = []
    /// The position of the first element that waits; before it are empty places.
    private var head = 0
    private var waiter: Waiter?
    private var isOver = false
    private var error: (any Error)?
    /// How many elements were dropped for want of room.
    private(set) var dropped = 0

    init(_ rule: FluxDelivery.Kind, failingAfter limit: Int = .max) {
        self.rule = rule
        self.limit = limit
    }

    private var count: Int { waiting.count - head }

    /// Keeps an element as the rule has it.
    ///
    /// - Parameter element: What to keep; nil by the rule `latest` if it is to be read once it is asked for.
    /// - Returns: The iterator to be woken, and what has to go, outside the lock.
    mutating func push(_ element: Element?) -> (wake: Waiter?, remains: Element?) {
        if isOver { return (nil, element) }
        var remains: Element?
        switch rule {
        case .latest: if count > 0 { remains = pop() }
        case .newest(let room): if count >= room { (remains, dropped) = (pop(), dropped + 1) }
        case .oldest(let room):
            if count >= room {
                dropped += 1
                return (nil, element)
            }
        case .every:
            if count >= limit {
                dropped += 1
                return (finish(FluxOverflow(limit: limit)), element)
            }
        }
        waiting.append(element)
        return (fluxTake(&waiter), remains)
    }

    mutating func take() -> Taken {
        if count > 0 { return .element(pop()) }
        return isOver ? .end(fluxTake(&error)) : .empty
    }

    /// Keeps an iterator that found nothing; false: it has to look again.
    mutating func wait(_ iterator: Waiter) -> Bool {
        if count > 0 || isOver { return false }
        waiter = iterator
        return true
    }

    /// Ends it after what waits; returns the iterator to be woken.
    mutating func finish(_ error: (any Error)? = nil) -> Waiter? {
        if isOver { return nil }
        isOver = true
        self.error = error
        return fluxTake(&waiter)
    }

    /// Ends it at once; returns the iterator to be woken, and what has to go, outside the lock.
    mutating func cancel() -> (wake: Waiter?, remains: ContiguousArray<Element?>) {
        var remains: ContiguousArray<Element?> = []
        swap(&remains, &waiting)
        head = 0
        isOver = true
        error = nil
        return (fluxTake(&waiter), remains)
    }

    private mutating func pop() -> Element? {
        let element = fluxTake(&waiting[head])
        head += 1
        if head == waiting.count {
            waiting.removeAll(keepingCapacity: waiting.capacity <= FluxLimits.keptCapacity)
            head = 0
        } else if head >= 16 && head * 2 >= waiting.count {
            waiting.removeFirst(head)
            head = 0
        }
        return element
    }
}
