#if canImport(FluxCore)
    import FluxCore
#endif

/// What waits for one iterator: a pure state machine.
///
/// | input    | nothing waits                 | something waits                 | over                         |
/// |----------|-------------------------------|---------------------------------|------------------------------|
/// | `push`   | kept; settle                  | kept, as the rule has it        | goes, counted before an error; settle |
/// | `take`   | nil; the iterator is kept, if it is to be | the first; by `latest`, the one | the end, after what waits |
/// | `finish` | over; settle                  | over, after what waits          | nothing                      |
/// | `cancel` | over; settle                  | over at once; settle            | over at once; settle         |
/// | `settle` | the iterator that waits, with what it takes, and what has to go: both for outside the lock               |
nonisolated struct FluxChannelMachine<Element: Sendable, Waiter> {
    private let rule: FluxBuffered.Rule
    private var waiting = FluxWaiting<Element>()
    /// What has to go.
    private var gone: ContiguousArray<Element> = []
    private var waiter: Waiter?
    /// What comes after what waits, once it is over.
    private var end: FluxTaken<Element>?
    /// How many elements were dropped for want of room.
    private(set) var dropped = 0

    init(_ rule: FluxBuffered.Rule) { self.rule = rule }

    /// Keeps an element as the rule has it, and lets go of another that nobody compares with any more; true: settle.
    mutating func push(_ element: Element, forgetting old: Element? = nil) -> Bool {
        if let old { gone.append(old) }
        let count = waiting.count
        switch rule {
        case _ where end != nil:
            // What comes behind one that did not fit, before the error is thrown, is left out as well.
            if case .end(_?) = end { drop(element) } else { gone.append(element) }
        case .oldest(let room) where count >= room: drop(element)
        case .failing(let room) where count >= room:
            drop(element)
            finish(FluxOverflow(limit: room))
        case .latest where count > 0: drop(waiting.replaceFirst(element))
        case .newest(let room) where count >= room: drop(waiting.replaceFirst(element))
        default: waiting.append(element)
        }
        return waiter != nil || !gone.isEmpty
    }

    /// Takes what is first, or the end; nil: there is nothing yet.
    mutating func take() -> FluxTaken<Element>? {
        if let element = waiting.popFirst() { return .element(element) }
        // An error is thrown once.
        defer { if end != nil { end = .end(nil) } }
        return end
    }

    /// Takes what is first; an iterator that finds nothing is kept until there is something.
    mutating func take(orKeep iterator: Waiter) -> FluxTaken<Element>? {
        if let taken = take() { return taken }
        if waiter != nil { fatalError("FluxCore: two tasks wait with one iterator. Give each its own.") }
        waiter = iterator
        return nil
    }

    /// Ends it after what waits.
    mutating func finish(_ error: FluxOverflow? = nil) {
        if end == nil { end = .end(error) }
    }

    /// Ends it at once.
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

/// What an iterator takes.
nonisolated enum FluxTaken<Element: Sendable>: Sendable {
    case element(Element)
    case end(FluxOverflow?)
}

/// What waits to be taken, first things first.
@usableFromInline
nonisolated struct FluxWaiting<Element: Sendable>: Sendable {
    /// What came since the last of `older` was taken, and before it `older`, the oldest last.
    @usableFromInline var newer: ContiguousArray<Element> = []
    @usableFromInline var older: ContiguousArray<Element> = []

    @inlinable init() {}

    @inlinable var count: Int { newer.count + older.count }

    @inlinable mutating func append(_ element: Element) { newer.append(element) }

    /// Takes the first, amortised in constant time.
    @inlinable mutating func popFirst() -> Element? {
        if older.isEmpty {
            swap(&older, &newer)
            older.reverse()
            if newer.capacity > (1 << 19) / MemoryLayout<Element>.stride { newer = [] }
        }
        return older.popLast()
    }

    /// Takes the first, to make room for one behind the last.
    @inlinable mutating func replaceFirst(_ element: Element) -> Element? {
        defer { append(element) }
        return popFirst()
    }
}

/// Hands what it is given to one iterator, which need not take it as fast.
nonisolated final class FluxChannel<Element: Sendable>: FluxReceiverDelivery, FluxSettling {
    typealias Machine = FluxChannelMachine<Element, FluxIteratorContinuation<FluxTaken<Element>>>

    private let lock: FluxLock<Machine>

    init(_ rule: FluxBuffered.Rule) { lock = FluxLock(Machine(rule)) }

    var dropped: Int { lock.withLock { $0.dropped } }

    /// Puts an element behind those that wait, and has another let go of; returns whom to settle once no lock is held.
    func put(_ element: Element, forgetting old: Element? = nil) -> (any FluxSettling)? {
        lock.withLock { $0.push(element, forgetting: old) } ? self : nil
    }

    /// Takes the next element, and waits for it if there is none.
    @inline(__always) func next(isolation actor: isolated (any _Concurrency.Actor)?) async -> FluxTaken<Element> {
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

    /// Settles after an input, in one step.
    @inline(__always) func settle(after input: (inout Machine) -> Void) {
        let (wake, gone) = lock.withLock { machine in
            input(&machine)
            return machine.settle()
        }
        if let wake { wake.iterator.resume(returning: wake.taken) }
        // A token may be let go of with some lock held.
        if !gone.isEmpty { FluxPureCode.after { withExtendedLifetime(gone) {} } }
    }

    var token: FluxSubscription { FluxSubscription { self.cancel() } }

    func flush() async {}
}

/// Tells one iterator that there is something new.
///
/// Without a type of the client's, so that its iterators, which are compiled there, wait in code that is compiled here.
@usableFromInline
nonisolated struct FluxSignal: Sendable {
    private let channel = FluxChannel<Void>(.latest)

    /// Waits until there is something new; false: it is over.
    @usableFromInline func isDue(isolation actor: isolated (any _Concurrency.Actor)?) async -> Bool {
        if case .element = await channel.next(isolation: actor) { true } else { false }
    }

    func tell() { channel.settle { _ = $0.push(()) } }
}
