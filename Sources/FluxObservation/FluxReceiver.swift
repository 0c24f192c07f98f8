import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// A source that can be observed while changes are applied: a store, or a view, whose values are the states of a store.
@usableFromInline
nonisolated protocol FluxObservableSource<State>: FluxSource {
    /// Passes each announced state to a receiver, in the step that announces it.
    func join(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription

    /// Signals that there is a newer state.
    ///
    /// It also signals a state that counts as equal to the last one signalled: the caller may have
    /// read another state in between.
    func signal(startingWithCurrent: Bool, _ changed: @escaping @Sendable () -> Void) -> FluxSubscription

    /// Returns a closure that reads a part of the state atomically; it keeps the state alive, but not the source.
    func reader<Value>(of select: @escaping @Sendable (State) -> Value) -> @Sendable () -> Value

    /// Creates readers of the newest state, which keep the state alive but not the source;
    /// those of a view keep its sources.
    var newest: FluxNewest<State> { get }

    /// The sources of a view; nil for a store.
    var sources: FluxViewSources? { get }

    /// The turns, on the source's serial queue, of all handlers that were given no other queue.
    var turns: FluxTurns { get }

    /// The serial queue that signals iterators; no handler of a user runs there.
    var iteratorQueue: DispatchQueue { get }
}

nonisolated extension FluxStore: FluxObservableSource {
    @usableFromInline
    func signal(startingWithCurrent: Bool, _ changed: @escaping @Sendable () -> Void) -> FluxSubscription {
        subscribe(.latest, on: iteratorQueue, startingWithCurrent: startingWithCurrent, ended: nil) { _ in changed() }
    }

    @inlinable var newest: FluxNewest<State> {
        FluxNewest { [handle] in
            FluxNewest.Reader { revision in
                handle.withAccess { access in
                    if access.revision == revision { return nil }
                    revision = access.revision
                    return access.state
                }
            }
        }
    }

    @usableFromInline var sources: FluxViewSources? { nil }

    @usableFromInline var turns: FluxTurns {
        handle.feature(FluxTurns.self) { FluxTurns(handle.queue, isUsers: false) }
    }

    @usableFromInline var iteratorQueue: DispatchQueue {
        handle.feature(FluxIteratorQueue.self) { FluxIteratorQueue() }.queue
    }

    @inlinable
    func reader<Value>(of select: @escaping @Sendable (State) -> Value) -> @Sendable () -> Value {
        { [handle] in handle.withAccess { select($0.state) } }
    }

    @inlinable
    func join(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription {
        let put = receiver.put
        // Store observers are called by the rules of `handle`, so the closure needs no other guard.
        let observer = FluxReceiverObserver<State>(handle, receiver.delivery) { _, state, revision in
            revision == nil ? nil : put(state, true)
        }
        let due = handle.withAccess { access in
            access.observe(observer, settlesFirst: true)
            return put(access.state, startingWithCurrent)
        }
        due?.settle()
        return observer.token
    }
}

nonisolated extension FluxView: FluxObservableSource {
    @usableFromInline
    func signal(startingWithCurrent: Bool, _ changed: @escaping @Sendable () -> Void) -> FluxSubscription {
        core.following { core.inner.signal(startingWithCurrent: startingWithCurrent, changed) }
    }

    @inlinable var newest: FluxNewest<State> {
        let newest = core.inner.newest
        return FluxNewest { [core] in
            let (inner, distinct) = (newest.reader(), core.distinct)
            return FluxNewest.Reader { revision in
                core.upToDate()
                return inner.after(&revision).flatMap { distinct.isChange(to: $0) ? $0.value : nil }
            }
        }
    }

    @usableFromInline var sources: FluxViewSources? { core.sources }

    @usableFromInline var turns: FluxTurns { core.inner.turns }

    @usableFromInline var iteratorQueue: DispatchQueue { core.inner.iteratorQueue }

    @inlinable
    func reader<Value>(of select: @escaping @Sendable (State) -> Value) -> @Sendable () -> Value {
        core.inner.reader { select($0.value) }
    }

    @usableFromInline
    func join(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription {
        core.following {
            let inner = FluxReceiver<FluxDerived<State>>(receiver.delivery) { receiver.put($0.value, $1) }
            return core.inner.join(inner, startingWithCurrent: startingWithCurrent)
        }
    }
}

/// The queue of the iterators of one source.
nonisolated private final class FluxIteratorQueue: Sendable {
    let queue = DispatchQueue(label: "FluxStates", autoreleaseFrequency: .workItem, target: .global())
}

/// A delivery of elements of any type.
@usableFromInline
nonisolated protocol FluxReceiverDelivery: AnyObject, Sendable {
    func end()
    func flush() async
    var token: FluxSubscription { get }
}

nonisolated extension FluxQueueDelivery: FluxReceiverDelivery {}

/// Handles each announced state by a closure created where the client's types are known, which is ten times as fast.
@usableFromInline
nonisolated struct FluxReceiver<State: Sendable>: Sendable {
    @usableFromInline let delivery: any FluxReceiverDelivery
    /// Puts the element made from a state into the delivery; with false, only remembers the state.
    @usableFromInline let put: @Sendable (State, Bool) -> (any FluxSettling)?

    @inlinable
    init(_ delivery: any FluxReceiverDelivery, put: @escaping @Sendable (State, Bool) -> (any FluxSettling)?) {
        self.delivery = delivery
        self.put = put
    }
}

nonisolated extension FluxSource {
    /// Creates a delivery on a queue, or on the source's own queue.
    @inlinable
    func delivery<Element: Sendable>(
        on queue: DispatchQueue?, bound: FluxQueueDelivery<Element>.Bound = .none,
        _ handler: @escaping @Sendable (Element) -> Void
    ) -> FluxQueueDelivery<Element> {
        if queue == nil, let source = self as? any FluxObservableSource {
            return FluxQueueDelivery(source.turns, bound, handler)
        }
        return FluxQueueDelivery(on: queue, bound: bound, handler)
    }

    /// Passes the current state to a receiver, atomically with the start, and then each announced state.
    ///
    /// The receiver gets the current state in any case; the flag says whether it is wanted.
    ///
    /// For a store or a view, the receiver is called when a change is applied, by the rules of `handle`. Only what the
    /// receiver puts into its delivery waits, never the state.
    @inlinable
    func connect(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription {
        // A generic function lets the optimiser see the source's type, and compile the whole path
        // to the closure in the client.
        func join<Source: FluxObservableSource>(_ source: Source) -> FluxSubscription? {
            (receiver as? FluxReceiver<Source.State>).flatMap {
                source.join($0, startingWithCurrent: startingWithCurrent)
            }
        }
        if let source = self as? any FluxObservableSource, let token = join(source) { return token }
        return follow(receiver, startingWithCurrent: startingWithCurrent)
    }

    /// Passes each state to a receiver when that state is delivered.
    @usableFromInline
    func follow(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription {
        let isWanted = FluxLock(startingWithCurrent)
        let token = subscribe(.every, on: relay, startingWithCurrent: true, ended: { receiver.delivery.end() }) {
            state in
            receiver.put(state, isWanted.withLock { Swift.exchange(&$0, with: true) })?.settle()
        }
        return FluxSubscription([receiver.delivery.token, token])
    }

    /// A serial queue on which no handler of a user runs.
    var relay: DispatchQueue { (self as? any FluxObservableSource)?.iteratorQueue ?? FluxIteratorQueue().queue }

    /// Tells whether two states count as equal, if the source announces only different ones; nil if it announces all.
    @usableFromInline var difference: (@Sendable (State, State) -> Bool)? { (self as? FluxView<State>)?.core.isSame }
}

/// Passes each change to a closure that puts an element for it into a delivery, and ends the delivery with the store.
@usableFromInline
nonisolated final class FluxReceiverObserver<State: FluxState>: FluxStoreObserver {
    @usableFromInline typealias Put = @Sendable (FluxChange<State>, State, UInt64?) -> (any FluxSettling)?

    @usableFromInline let delivery: any FluxReceiverDelivery
    @usableFromInline let put: Put
    @usableFromInline let feed = FluxFeed()

    @inlinable
    init(_ handle: FluxStoreHandle<State>, _ delivery: any FluxReceiverDelivery, _ put: @escaping Put) {
        self.delivery = delivery
        self.put = put
        feed.stops { handle.withAccess { $0.remove(self) } }
    }

    @usableFromInline var token: FluxSubscription { FluxSubscription([delivery.token, feed.token]) }

    @inlinable
    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        put(change, state, revision)
    }

    @usableFromInline
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        feed.stops(nil)
        delivery.end()
        return false
    }

    @usableFromInline
    func flush() async { await delivery.flush() }
}

/// Whether something is pending; set and cleared while the lock of one store is held, which orders the two.
@usableFromInline
nonisolated final class FluxFlag: Sendable {
    /// How often it was set since it was last cleared.
    private let count = Synchronization.Atomic<Int>(0)
    /// The count that the last `clear()` found.
    private let last = Synchronization.Atomic<Int>(0)

    @usableFromInline init() {}

    /// Whether it had been set more than once when it was cleared.
    @usableFromInline var wasBurst: Bool { last.load(ordering: .relaxed) > 1 }

    /// Sets the flag; returns false if it was set already.
    @usableFromInline func set() -> Bool {
        let before = count.load(ordering: .relaxed)
        count.store(before &+ 1, ordering: .relaxed)
        return before == 0
    }

    @usableFromInline func clear() {
        last.store(count.load(ordering: .relaxed), ordering: .relaxed)
        count.store(0, ordering: .relaxed)
    }
}

/// The registration that feeds a delivery, as held by its token.
///
/// Once the store has ended, the token keeps neither state nor handler alive.
@usableFromInline
nonisolated final class FluxFeed: Sendable {
    private let stop: FluxLock<FluxRegistration?>

    @usableFromInline init(_ body: (@Sendable () -> Void)? = nil) {
        stop = FluxLock(body.map { FluxRegistration($0) })
    }

    /// Sets the closure that stops the feed, which runs once; nil if there is nothing to stop.
    @usableFromInline func stops(_ body: (@Sendable () -> Void)?) {
        // The previous closure is released outside the lock.
        _ = stop.withLock { Swift.exchange(&$0, with: body.map { FluxRegistration($0) }) }
    }

    /// A token that stops the feed.
    var token: FluxSubscription {
        FluxSubscription {
            // If the token is released while a lock is held, the observer is removed once no lock is held.
            FluxPureCode.after { self.stop.withLock { Swift.exchange(&$0, with: nil) }?.remove() }
        }
    }
}
