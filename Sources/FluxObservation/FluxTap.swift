import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// A source that can be looked on at while changes are applied: a store or a view, whose values are the states of one.
@usableFromInline
nonisolated protocol FluxTappable<State>: FluxSource {
    /// Hands each announced state to a tap, in the step that announces it.
    func tap(_ tap: FluxTap<State>, startingWithCurrent: Bool) -> FluxSubscription

    /// The state, and the number of the change that announced it.
    var numbered: (state: State, revision: UInt64) { get }

    /// Whether two states are as good as equal, if it announces only those that are not; nil: it announces any.
    var difference: (@Sendable (State, State) -> Bool)? { get }

    /// The serial queue of all handlers that were given no other.
    var queue: DispatchQueue { get }

    /// The serial queue that iterators are told on: no handler of a user runs there.
    var relay: DispatchQueue { get }
}

/// What is done with each announced state: a closure made where the client's types are known, which makes it ten times as fast.
@usableFromInline
nonisolated struct FluxTap<State: Sendable>: Sendable {
    @usableFromInline let delivery: any FluxTapDelivery
    /// Puts what is to be told of a state into the delivery; false: the state is only to be known.
    @usableFromInline let put: @Sendable (State, Bool) -> (any FluxSettling)?

    @inlinable
    init(_ delivery: any FluxTapDelivery, put: @escaping @Sendable (State, Bool) -> (any FluxSettling)?) {
        self.delivery = delivery
        self.put = put
    }
}

/// A delivery of elements of any type.
@usableFromInline
nonisolated protocol FluxTapDelivery: FluxCancellable {
    func end()
    func flush() async
}

nonisolated extension FluxQueueDelivery: FluxTapDelivery {}

nonisolated extension FluxSource {
    /// Delivers what a closure makes of each announced state; it is called at the start too, in one step with that.
    ///
    /// Of a store and of a view it is called when a change is applied, under the rules of `handle`: what waits is what it
    /// returns, and never the state.
    @inlinable
    func tap<Element: Sendable>(
        on queue: DispatchQueue?,
        bound: FluxQueueDelivery<Element>.Bound = .none,
        startingWithCurrent: Bool,
        _ take: @escaping @Sendable (State) -> Element?,
        _ handler: @escaping @Sendable (Element) -> Void
    ) -> FluxSubscription {
        let source = self as? any FluxTappable<State>
        let delivery = FluxQueueDelivery<Element>(on: queue ?? source?.queue, bound: bound, handler)
        let tap = FluxTap<State>(delivery) { state, isWanted in
            guard let element = take(state), isWanted else { return nil }
            return delivery.put(element)
        }
        // By a type of its own: that is what the optimiser sees through, so that the whole way to the closure is the client's.
        func join<Source: FluxTappable>(_ source: Source) -> FluxSubscription? {
            (tap as? FluxTap<Source.State>).flatMap { source.tap($0, startingWithCurrent: startingWithCurrent) }
        }
        if let source = self as? any FluxTappable, let token = join(source) { return token }
        return follow(tap, startingWithCurrent: startingWithCurrent)
    }

    /// Hands each state to a tap as it is delivered.
    @usableFromInline
    func follow(_ tap: FluxTap<State>, startingWithCurrent: Bool) -> FluxSubscription {
        let hasStarted = FluxLock(startingWithCurrent)
        let options = FluxSubscriptionOptions(.every, on: fluxRelay(), startingWithCurrent: true)
        let token = subscribe(options, ended: { tap.delivery.end() }) { state in
            let isWanted = hasStarted.withLock { hasStarted in
                defer { hasStarted = true }
                return hasStarted
            }
            tap.put(state, isWanted)?.settle()
        }
        return FluxSubscription(FluxTapToken(tap.delivery) { token.unsubscribe() })
    }
}

/// A serial queue on which nothing of a user's runs.
nonisolated func fluxRelay() -> DispatchQueue {
    DispatchQueue(label: "FluxObservation", autoreleaseFrequency: .workItem, target: .global())
}

nonisolated extension FluxStore: FluxTappable {
    @usableFromInline var numbered: (state: State, revision: UInt64) { handle.withAccess { ($0.state, $0.revision) } }

    @usableFromInline var difference: (@Sendable (State, State) -> Bool)? { nil }

    @usableFromInline var queue: DispatchQueue { handle.queue }

    @usableFromInline var relay: DispatchQueue { handle.feature(FluxRelay.self) { FluxRelay() }.queue }

    @inlinable
    func tap(_ tap: FluxTap<State>, startingWithCurrent: Bool) -> FluxSubscription {
        let put = tap.put
        // Who looks on at a store does so under the rules of `handle`: the closure needs no guard of its own.
        let observer = FluxTapObserver<State>(tap.delivery) { _, state, revision in
            revision == nil ? nil : put(state, true)
        }
        let due = handle.withAccess { access in
            access.observe(observer)
            return put(access.state, startingWithCurrent)
        }
        due?.settle()
        return observer.token(handle)
    }
}

nonisolated extension FluxView: FluxTappable {
    @usableFromInline var numbered: (state: State, revision: UInt64) {
        _ = core.upToDate()
        return core.inner.handle.withAccess { ($0.state.value, $0.revision) }
    }

    @usableFromInline var difference: (@Sendable (State, State) -> Bool)? { core.isSame }

    @usableFromInline var queue: DispatchQueue { core.inner.queue }

    @usableFromInline var relay: DispatchQueue { core.inner.relay }

    @usableFromInline
    func tap(_ tap: FluxTap<State>, startingWithCurrent: Bool) -> FluxSubscription {
        core.subscribe { inner in
            inner.tap(FluxTap(tap.delivery) { tap.put($0.value, $1) }, startingWithCurrent: startingWithCurrent)
        }
    }
}

/// The queue of the iterators of one store.
nonisolated private final class FluxRelay: Sendable {
    let queue = fluxRelay()
}

/// Hands each change to a closure that puts what it makes of that into a delivery, and ends the delivery with the store.
@usableFromInline
nonisolated final class FluxTapObserver<State: FluxState>: FluxStoreObserver {
    @usableFromInline typealias Put = @Sendable (FluxChange<State>, State, UInt64?) -> (any FluxSettling)?

    private let delivery: any FluxTapDelivery
    @usableFromInline let put: Put
    /// What the token knows, so that it keeps neither the state nor the handler once the store is gone.
    private let link = FluxTapLink()
    private let endsWithStore: Bool

    @usableFromInline
    init(_ delivery: any FluxTapDelivery, endsWithStore: Bool = true, _ put: @escaping Put) {
        (self.delivery, self.endsWithStore) = (delivery, endsWithStore)
        self.put = put
    }

    @usableFromInline
    func token(_ handle: FluxStoreHandle<State>) -> FluxSubscription {
        link.put { handle.withAccess { $0.remove(self) } }
        return FluxSubscription(FluxTapToken(delivery) { [link] in link.cut() })
    }

    @inlinable
    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        put(change, state, revision)
    }

    @usableFromInline
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        link.put(nil)
        if endsWithStore { delivery.end() }
        return false
    }

    @usableFromInline
    func flush() async {
        await delivery.flush()
    }
}

/// How an observer is taken out again.
nonisolated final class FluxTapLink: Sendable {
    private struct Way {
        let body: @Sendable () -> Void
    }

    private let way = FluxLock<Way?>(nil)

    func put(_ body: (@Sendable () -> Void)?) {
        var way = body.map { Way(body: $0) }
        // What was there goes outside the lock.
        self.way.withLock { swap(&$0, &way) }
    }

    func cut() {
        // What is let go of with some lock held is taken out once there is none.
        if FluxPureCode.isRunning { return DispatchQueue.global().async { self.cut() } }
        var way: Way?
        self.way.withLock { swap(&$0, &way) }
        way?.body()
    }
}

/// The token of a delivery and of what feeds it.
nonisolated final class FluxTapToken: FluxCancellable {
    private let delivery: any FluxTapDelivery
    private let body: @Sendable () -> Void

    init(_ delivery: any FluxTapDelivery, _ body: @escaping @Sendable () -> Void) {
        (self.delivery, self.body) = (delivery, body)
    }

    func cancel() {
        delivery.cancel()
        body()
    }

    func finish() async {
        cancel()
        await delivery.finish()
    }

    var dropped: Int { delivery.dropped }
}
