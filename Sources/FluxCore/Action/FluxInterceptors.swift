import Synchronization

/// Stands before a dispatch: it may act before and after, replace an action, stop it or send more.
///
/// Middleware is built on it.
///
/// ```swift
/// struct Counting: FluxDispatchInterceptor {
///     let counts = Counts()
///     func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
///         counts.add(1)
///         return next(action)
///     }
/// }
/// let registration = dispatcher.add(Counting())
/// ```
///
/// It is also told of the events of creators that send to the dispatcher. A dispatcher with none spends nothing on them.
///
/// Thread safety: called on any thread that dispatches, on several at once, with no lock held.
nonisolated public protocol FluxDispatchInterceptor: FluxEventObserver {
    /// Takes an action on its way to the stores.
    ///
    /// - Parameters:
    ///   - action: What was dispatched, or what the interceptor before this one made of it.
    ///   - dispatcher: Where.
    ///   - next: Goes on, with this action or another: once as a rule, never to stop it, several times to send several. It may be kept
    ///     and called later, from another thread.
    /// - Returns: How many stores have announced a change by now: what `next` returned.
    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int
}

/// The interceptors of a dispatcher at one moment, in their order; never changed.
@usableFromInline nonisolated final class FluxInterceptors: Sendable {
    /// One of them, in its place.
    final class Entry: Sendable {
        /// An interceptor, in a struct of its own for the lock.
        struct Content {
            let interceptor: any FluxDispatchInterceptor
        }

        let priority: Int
        /// Nil once it is removed: actions under way that have not reached it pass it by.
        let content: FluxLock<Content?>

        init(_ interceptor: any FluxDispatchInterceptor, priority: Int) {
            content = FluxLock(Content(interceptor: interceptor))
            self.priority = priority
        }

        var isRemoved: Bool { content.withLock { $0 == nil } }

        /// Whether it was there.
        func remove() -> Bool {
            // Let go of outside the lock.
            let gone = content.withLock { fluxTake(&$0) }
            return gone != nil
        }
    }

    let entries: ContiguousArray<Entry>

    init(_ entries: ContiguousArray<Entry>) { self.entries = entries }
}

/// One action on its way past the interceptors of a dispatcher, until everybody has let go of its ``FluxNext``.
nonisolated final class FluxPassage: Sendable {
    /// Where an action goes once it has passed all interceptors.
    enum End: Sendable {
        /// To the stores of the dispatcher.
        case stores
        /// Wherever a closure takes it.
        case other(@Sendable (any FluxAction, FluxDispatchReport?) -> Int)
        /// To the stores, and on to where it came from by way of this dispatcher.
        case back(FluxNext)
    }

    let chain: FluxInterceptors
    let dispatcher: FluxDispatcher
    let end: End
    /// The work whose action it is; nil if it was not fired.
    let origin: FluxTask?
    private let announced = Synchronization.Atomic<Int>(0)
    /// Whether the dispatch that began it has returned: who goes on now had kept it.
    let isKept = Synchronization.Atomic<Bool>(false)

    init(_ chain: FluxInterceptors, on dispatcher: FluxDispatcher, to end: End, origin: FluxTask?) {
        (self.chain, self.dispatcher, self.end, self.origin) = (chain, dispatcher, end, origin)
    }

    var isAddressed: Bool {
        switch end {
        case .stores: false
        case .other: true
        case .back(let next): next.isAddressed
        }
    }

    /// The one that began it all, which counts for those on the way.
    private var first: FluxPassage {
        if case .back(let next) = end { next.passage.first } else { self }
    }

    var count: Int { first.announced.load(ordering: .relaxed) }

    func reachEnd(_ action: any FluxAction, _ report: FluxDispatchReport?) -> Int {
        switch end {
        case .stores: count(dispatcher.deliver(action, telling: report))
        case .other(let body): count(body(action, report))
        case .back(let next):
            (next.isAddressed ? 0 : count(dispatcher.deliver(action, telling: report))) + next.proceed(action, report)
        }
    }

    private func count(_ count: Int) -> Int {
        if count != 0 { first.announced.add(count, ordering: .relaxed) }
        return count
    }
}

/// Goes on with an action: through the interceptors that are left, and then to the stores.
///
/// It is a value that may be kept, called later and from another thread; it keeps what it leads to alive. An action of an event
/// that was cancelled meanwhile goes no further (C9).
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxNext: Sendable {
    let passage: FluxPassage
    private let position: Int
    private let report: FluxDispatchReport?

    init(_ passage: FluxPassage, at position: Int = 0, _ report: FluxDispatchReport?) {
        (self.passage, self.position, self.report) = (passage, position, report)
    }

    /// Whose interceptors these are.
    public var dispatcher: FluxDispatcher { passage.dispatcher }

    /// The work whose action it is; nil if it was not fired.
    public var origin: FluxTask? { passage.origin }

    /// Whether the action goes to another end than the stores of the dispatcher, such as the one store that has a name.
    public var isAddressed: Bool { passage.isAddressed }

    /// How many stores have announced a change so far, by way of any `next` of this dispatch.
    public var announced: Int { passage.count }

    /// Goes on; when it returns, the action has been applied, unless an interceptor behind stopped or postponed it.
    ///
    /// Inside `FluxState.handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The action at hand, or any other in its place.
    /// - Returns: How many stores announced a change.
    /// - Complexity: O(*m* + *n*) for *m* interceptors behind and *n* stores.
    @discardableResult public func callAsFunction(_ action: any FluxAction) -> Int { go { proceed(action, report) } }

    /// Goes on, and has somebody told of each store that applies the action.
    ///
    /// - Parameters:
    ///   - action: The action at hand, or any other in its place.
    ///   - witness: Who is told, also of what an interceptor behind postpones.
    /// - Returns: How many stores announced a change.
    /// - Complexity: O(*m* + *n*) for *m* interceptors behind and *n* stores.
    @discardableResult
    public func callAsFunction(_ action: any FluxAction, telling witness: any FluxDispatchWitness) -> Int {
        go { proceed(action, FluxDispatchReport(witness, outer: report)) }
    }

    /// Goes on as a call of it does, and tells which stores announced a change, each as the action left it.
    ///
    /// What another thread changed since is not in there; neither is what an interceptor behind postponed. It costs a copy of each
    /// changed state, so ask only where the answer is used.
    ///
    /// - Parameters:
    ///   - action: The action at hand, or any other in its place.
    ///   - body: Gets the store, the revision and the state of each change, in the order made, before this returns.
    /// - Returns: How many stores announced a change.
    /// - Complexity: O(*m* + *n*) for *m* interceptors behind and *n* stores.
    @discardableResult public func callAsFunction(
        _ action: any FluxAction, _ body: (_ store: FluxStoreInfo, _ revision: UInt64, _ state: any FluxState) -> Void
    ) -> Int {
        let changes = FluxAnnouncedChanges()
        let announced = self(action, telling: changes)
        for change in changes.list.withLock({ fluxTake(&$0) }) ?? [] {
            body(change.store, change.revision, change.state)
        }
        return announced
    }

    /// Goes on by way of another dispatcher, and then from here, with what the interceptors of that made of the action.
    ///
    /// In between it goes to the stores of the other dispatcher, unless it is addressed.
    ///
    /// - Parameters:
    ///   - action: The action at hand, or any other in its place.
    ///   - other: The other dispatcher.
    /// - Returns: How many stores announced a change, those behind among them.
    @discardableResult public func callAsFunction(_ action: any FluxAction, through other: FluxDispatcher) -> Int {
        go { other.begin(action, to: .back(self), report, origin: origin) }
    }

    @inline(__always) private func go(_ body: () -> Int) -> Int {
        let thread = passage.dispatcher.threads.current
        thread.requireImpure("next")
        if let origin = passage.origin {
            if thread.task === origin && !passage.isKept.load(ordering: .relaxed) { return body() }
            return origin.pass(body) ?? 0
        }
        return thread.pointee.sending == nil ? body() : thread.sending(nil, body)
    }

    func proceed(_ action: any FluxAction, _ report: FluxDispatchReport?) -> Int {
        var position = position
        while position < passage.chain.entries.count {
            let entry = passage.chain.entries[position]
            position += 1
            guard let content = entry.content.withLock({ $0 }) else {
                passage.dispatcher.sweepInterceptors()
                continue
            }
            return content.interceptor.dispatch(
                action, on: passage.dispatcher, next: FluxNext(passage, at: position, report))
        }
        return passage.reachEnd(action, report)
    }
}

/// Is told of each store that applies the action of one dispatch.
///
/// Thread safety: called under the locks of the dispatcher and of the store, on any thread: it must be quick, and use no store,
/// dispatcher or creator.
nonisolated public protocol FluxDispatchWitness: AnyObject, Sendable {
    /// A store has applied the action.
    ///
    /// - Parameters:
    ///   - state: The state after it.
    ///   - store: The handle of the store.
    ///   - revision: The revision of the change; nil if there is nothing to announce.
    func applied<State>(_ state: State, by store: FluxStoreHandle<State>, revision: UInt64?)
}

/// Leads to those who are told what comes of one dispatch.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxDispatchReport: Sendable {
    private let witness: any FluxDispatchWitness
    private let outer: FluxDispatchReport?

    init(_ witness: any FluxDispatchWitness, outer: FluxDispatchReport?) {
        (self.witness, self.outer) = (witness, outer)
    }

    @usableFromInline func applied<State>(_ state: State, by store: FluxStoreHandle<State>, revision: UInt64?) {
        witness.applied(state, by: store, revision: revision)
        outer?.applied(state, by: store, revision: revision)
    }
}

/// Collects the changes of one dispatch until they are asked for.
nonisolated private final class FluxAnnouncedChanges: FluxDispatchWitness {
    let list = FluxLock<[(store: FluxStoreInfo, revision: UInt64, state: any FluxState)]?>([])

    func applied<State>(_ state: State, by store: FluxStoreHandle<State>, revision: UInt64?) {
        if let revision { list.withLock { $0?.append((FluxStoreInfo(store), revision, state)) } }
    }
}
