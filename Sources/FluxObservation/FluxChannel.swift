#if canImport(FluxCore)
    import FluxCore
#endif

/// The elements that wait for one iterator: a pure state machine.
///
/// | input    | nothing waits              | something waits                  | over                                  |
/// |----------|----------------------------|----------------------------------|---------------------------------------|
/// | `push`   | kept; settle               | kept according to the rule       | dropped; counted until error; settle  |
/// | `take`   | nil; may keep the iterator | the first; the one with `latest` | the waiting elements, then the end    |
/// | `finish` | over; settle               | over, after the waiting elements | nothing                               |
/// | `cancel` | over; settle               | over immediately; settle         | over immediately; settle              |
/// | `settle` | returns the waiting iterator with its element, and the elements to release: both for outside the lock |
nonisolated struct FluxChannelMachine<Element: Sendable, Waiter> {
    private let rule: FluxBuffered.Rule
    private var waiting = FluxWaiting<Element>()
    /// The elements to be released.
    private var gone: ContiguousArray<Element> = []
    private var waiter: Waiter?
    /// The end that follows the waiting elements, once the channel is over.
    private var end: FluxTaken<Element>?
    /// How many elements were dropped for lack of room.
    private(set) var dropped = 0

    init(_ rule: FluxBuffered.Rule) { self.rule = rule }

    /// Keeps an element according to the rule, and releases an old one that is no longer
    /// needed; returns true to settle.
    mutating func push(_ element: Element, forgetting old: Element? = nil) -> Bool {
        if let old { gone.append(old) }
        let count = waiting.count
        switch rule {
        case _ where end != nil:
            // An element that follows one without room, before the error is thrown, counts as dropped too.
            if case .end(_?) = end { drop(element) } else { gone.append(element) }
        case .oldest(let room) where count >= room: drop(element)
        case .failing(let room) where count >= room:
            drop(element)
            finish(FluxOverflow(limit: room))
        case .latest where count > 0:
            drop(waiting.popFirst())
            waiting.append(element)
        case .newest(let room) where count >= room:
            drop(waiting.popFirst())
            waiting.append(element)
        default: waiting.append(element)
        }
        return waiter != nil || !gone.isEmpty
    }

    /// Takes the first element, or the end; returns nil if there is nothing yet.
    mutating func take() -> FluxTaken<Element>? {
        if let element = waiting.popFirst() { return .element(element) }
        // An error is thrown only once.
        defer { if end != nil { end = .end(nil) } }
        return end
    }

    /// Takes the first element, or the end; keeps the iterator waiting if there is nothing yet.
    mutating func take(orKeep iterator: Waiter) -> FluxTaken<Element>? {
        if let taken = take() { return taken }
        if waiter != nil { fatalError("FluxCore: two tasks wait with one iterator. Give each its own.") }
        waiter = iterator
        return nil
    }

    /// Ends the channel after the waiting elements.
    mutating func finish(_ error: FluxOverflow? = nil) {
        if end == nil { end = .end(error) }
    }

    /// Ends the channel immediately.
    mutating func cancel() {
        gone += waiting.older + waiting.newer
        waiting = FluxWaiting()
        end = .end(nil)
    }

    mutating func settle() -> (wake: (iterator: Waiter, taken: FluxTaken<Element>)?, gone: ContiguousArray<Element>) {
        let gone = Swift.exchange(&gone, with: [])
        guard let iterator = waiter, let taken = take() else { return (nil, gone) }
        waiter = nil
        return ((iterator, taken), gone)
    }

    private mutating func drop(_ element: Element?) {
        if rule != .latest { dropped += 1 }
        if let element { gone.append(element) }
    }
}

/// An element that an iterator takes, or the end.
nonisolated enum FluxTaken<Element: Sendable>: Sendable {
    case element(Element)
    case end(FluxOverflow?)
}

/// The elements that wait to be taken, first in, first out.
@usableFromInline
nonisolated struct FluxWaiting<Element: Sendable>: Sendable {
    /// The elements that arrived since `older` was last refilled from here.
    @usableFromInline var newer: ContiguousArray<Element> = []
    /// The elements before those, in reverse order: the first to be taken is the last.
    @usableFromInline var older: ContiguousArray<Element> = []

    @inlinable init() {}

    @inlinable var count: Int { newer.count + older.count }

    @inlinable mutating func append(_ element: Element) { newer.append(element) }

    /// Takes the first element, in amortised constant time.
    @inlinable mutating func popFirst() -> Element? {
        if older.isEmpty {
            // Nothing to reverse.
            if newer.count < 2 && older.capacity == 0 { return newer.popLast() }
            swap(&older, &newer)
            older.reverse()
            if newer.capacity > (1 << 19) / MemoryLayout<Element>.stride { newer = [] }
        }
        return older.popLast()
    }
}

/// Passes elements to one iterator, which may take them more slowly.
nonisolated final class FluxChannel<Element: Sendable>: FluxReceiverDelivery, FluxSettling {
    typealias Machine = FluxChannelMachine<Element, FluxIteratorContinuation<FluxTaken<Element>>>

    private let lock: FluxLock<Machine>

    init(_ rule: FluxBuffered.Rule) { lock = FluxLock(Machine(rule)) }

    var dropped: Int { lock.withLock { $0.dropped } }

    /// Appends an element and releases an old one; returns the object to settle once no lock is held.
    func put(_ element: Element, forgetting old: Element? = nil) -> (any FluxSettling)? {
        lock.withLock { $0.push(element, forgetting: old) } ? self : nil
    }

    /// Takes the next element; waits for it if there is none.
    @inline(__always) nonisolated(nonsending) func next() async -> FluxTaken<Element> {
        if let taken = lock.withLock({ $0.take() }) {
            if !_Concurrency.Task.isCancelled { return taken }
            cancel()
            return .end(nil)
        }
        return await withTaskCancellationHandler {
            await fluxSuspendIterator { iterator in
                if let taken = lock.withLock({ $0.take(orKeep: iterator) }) { iterator.resume(returning: taken) }
            }
        } onCancel: {
            cancel()
        }
    }

    func settle() { settle { _ in } }

    func end() { settle { $0.finish() } }

    func cancel() { settle { $0.cancel() } }

    /// Applies an input and settles, in one atomic step.
    @inline(__always) func settle(after input: (inout Machine) -> Void) {
        let (wake, gone) = lock.withLock { machine in
            input(&machine)
            return machine.settle()
        }
        if let wake { wake.iterator.resume(returning: wake.taken) }
        // The token may be released while a lock is held, where the user's elements must not be released.
        if !gone.isEmpty { FluxPureCode.after { withExtendedLifetime(gone) {} } }
    }

    var token: FluxSubscription { FluxSubscription { self.cancel() } }

    func flush() async {}
}

/// Signals to one iterator that there is something new.
///
/// It uses no type of the client: iterators, which are compiled in the client's module, wait in code compiled here.
@usableFromInline
nonisolated struct FluxSignal: Sendable {
    private let channel = FluxChannel<Void>(.latest)

    /// Waits until there is something new; returns false if the channel is over.
    @usableFromInline nonisolated(nonsending) func isDue() async -> Bool {
        if case .element = await channel.next() { true } else { false }
    }

    func tell() { channel.settle { _ = $0.push(()) } }
}
