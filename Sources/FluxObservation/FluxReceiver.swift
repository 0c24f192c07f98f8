import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// A source that can be looked on at while changes are applied: a store or a view, whose values are the states of one.
@usableFromInline
nonisolated protocol FluxObservableSource<State>: FluxSource {
    /// Hands each announced state to a receiver, in the step that announces it.
    func join(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription

    /// Tells that there is a newer state, which may be as good as the last that it told of: who reads the state then may have read
    /// another in between.
    func signal(startingWithCurrent: Bool, _ changed: @escaping @Sendable () -> Void) -> FluxSubscription

    /// Reads a part of the state, in one step with the changes of it; keeps the state, and not the source.
    func reader<Value>(of select: @escaping @Sendable (State) -> Value) -> @Sendable () -> Value

    /// Reads the newest state, again and again; it keeps the state and not the source, but of a view the sources.
    var newest: FluxNewest<State> { get }

    /// What a view follows from; nil: it is a store.
    var sources: FluxViewSources? { get }

    /// The turns, on its serial queue, of all handlers that were given no other.
    var turns: FluxTurns { get }

    /// The serial queue that iterators are told on: no handler of a user runs there.
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
        // Who looks on at a store does so under the rules of `handle`: the closure needs no guard of its own.
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

/// What is done with each announced state: a closure made where the client's types are known, which makes it ten times as fast.
@usableFromInline
nonisolated struct FluxReceiver<State: Sendable>: Sendable {
    @usableFromInline let delivery: any FluxReceiverDelivery
    /// Puts what is to be told of a state into the delivery; false: the state is only to be known.
    @usableFromInline let put: @Sendable (State, Bool) -> (any FluxSettling)?

    @inlinable
    init(_ delivery: any FluxReceiverDelivery, put: @escaping @Sendable (State, Bool) -> (any FluxSettling)?) {
        self.delivery = delivery
        self.put = put
    }
}

nonisolated extension FluxSource {
    /// What delivers on a queue, or on the source's own.
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

    /// Hands each announced state to a receiver, and, whether it is wanted or not, the current one first, in one step with the start.
    ///
    /// Of a store and of a view the receiver is called when a change is applied, under the rules of `handle`: what waits is what it puts
    /// into its delivery, and never the state.
    @inlinable
    func connect(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription {
        // By a type of its own: that is what the optimiser sees through, so that the whole way to the closure is the client's.
        func join<Source: FluxObservableSource>(_ source: Source) -> FluxSubscription? {
            (receiver as? FluxReceiver<Source.State>).flatMap {
                source.join($0, startingWithCurrent: startingWithCurrent)
            }
        }
        if let source = self as? any FluxObservableSource, let token = join(source) { return token }
        return follow(receiver, startingWithCurrent: startingWithCurrent)
    }

    /// Hands each state to a receiver as it is delivered.
    @usableFromInline
    func follow(_ receiver: FluxReceiver<State>, startingWithCurrent: Bool) -> FluxSubscription {
        let isWanted = FluxLock(startingWithCurrent)
        let token = subscribe(.every, on: relay, startingWithCurrent: true, ended: { receiver.delivery.end() }) {
            state in
            receiver.put(state, isWanted.withLock { $0 })?.settle()
            isWanted.withLock { $0 = true }
        }
        return FluxSubscription([receiver.delivery.token, token])
    }

    /// A serial queue on which nothing of a user's runs.
    var relay: DispatchQueue { (self as? any FluxObservableSource)?.iteratorQueue ?? FluxIteratorQueue().queue }

    /// Whether two states are as good as equal, if it announces only those that are not; nil: it announces any.
    @usableFromInline var difference: (@Sendable (State, State) -> Bool)? { (self as? FluxView<State>)?.core.isSame }
}

/// Hands each change to a closure that puts what it makes of that into a delivery, and ends the delivery with the store.
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

/// Whether something is due; set and cleared with the lock of one store held, which orders the two.
@usableFromInline
nonisolated final class FluxFlag: Sendable {
    /// How often it was set since it was last cleared.
    private let count = Synchronization.Atomic<Int>(0)
    /// The count that the last `clear()` found.
    private let last = Synchronization.Atomic<Int>(0)

    @usableFromInline init() {}

    /// Whether it had been set more than once when it was cleared.
    @usableFromInline var wasBurst: Bool { last.load(ordering: .relaxed) > 1 }

    /// Sets it; false: it was set.
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

/// What feeds a delivery, or keeps it fed, as its token knows it: that keeps neither state nor handler once the store is gone.
@usableFromInline
nonisolated final class FluxFeed: Sendable {
    private let stop = FluxLock<FluxRegistration?>(nil)

    @usableFromInline init() {}

    /// How it is stopped, once; nil: there is nothing to stop.
    @usableFromInline func stops(_ body: (@Sendable () -> Void)?) {
        // What was there goes outside the lock.
        _ = stop.withLock { Swift.exchange(&$0, with: body.map { FluxRegistration($0) }) }
    }

    /// A token that stops it.
    var token: FluxSubscription {
        FluxSubscription {
            // What is let go of with some lock held is taken out once there is none.
            FluxPureCode.after { self.stop.withLock { Swift.exchange(&$0, with: nil) }?.remove() }
        }
    }
}
