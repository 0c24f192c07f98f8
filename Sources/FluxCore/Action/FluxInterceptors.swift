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
    /// - Returns: How many changes the stores have announced by now: what `next` returned.
    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int
}

/// Is told of each store that applies the action of one dispatch.
///
/// It gets the store, the revision of the change, which is nil if there is nothing to announce, and what copies the state after
/// it.
///
/// Thread safety: called under the locks of the dispatcher and of the store, on any thread: it must be quick, and use no store,
/// dispatcher or creator.
public typealias FluxDispatchWitness =
    @Sendable (_ store: FluxStoreInfo, _ revision: UInt64?, _ state: () -> any FluxState) -> Void

/// The interceptors of a dispatcher.
///
/// An object of its own, so that what removes one need not refer to the dispatcher, which a weak reference would slow down for
/// good.
@usableFromInline nonisolated final class FluxInterceptors: Sendable {
    /// One of them, in its place.
    final class Entry: Sendable {
        let interceptor: any FluxDispatchInterceptor
        let priority: Int
        /// Actions under way that have not reached it pass it by; one with whoever takes its place, who may be removed before they do.
        let removal: Removal

        init(_ interceptor: any FluxDispatchInterceptor, _ priority: Int, _ removal: Removal = Removal()) {
            (self.interceptor, self.priority, self.removal) = (interceptor, priority, removal)
        }
    }

    final class Removal: Sendable { let isDone = Synchronization.Atomic<Bool>(false) }

    /// Whether there are any: all that the hot path looks at.
    @usableFromInline let isUsed = Synchronization.Atomic<Bool>(false)
    private let list = FluxLock<ContiguousArray<Entry>>([])

    /// In the order in which an action comes to them.
    var entries: ContiguousArray<Entry> { list.withLock { $0 } }

    /// Returns how many were removed.
    @discardableResult func remove(where isUnwanted: (Entry) -> Bool) -> Int {
        change("remove() or removeInterceptors") { entries in
            // Relaxed: the lock of the list orders it for who removes; an action under way may come to it or pass it by.
            for entry in entries where isUnwanted(entry) { entry.removal.isDone.store(true, ordering: .relaxed) }
            entries.removeAll { $0.removal.isDone.load(ordering: .relaxed) }
        }
    }

    /// Changes the list for actions that come later; returns how many fewer there are.
    @discardableResult func change(_ call: StaticString, _ body: (inout ContiguousArray<Entry>) -> Void) -> Int {
        FluxPureCode.forbid(call)
        // What goes is the user's, so it is let go of outside the lock.
        let (old, count) = list.withLock { entries in
            let old = entries
            FluxPureCode.run("what picks interceptors") { body(&entries) }
            // Relaxed: written under the lock of the list; a dispatch that finds it set takes that.
            isUsed.store(!entries.isEmpty, ordering: .relaxed)
            return (old, entries.count)
        }
        return old.count - count
    }
}

/// Where an action goes once it has passed all interceptors; returns how many changes were announced.
@usableFromInline typealias FluxDispatchEnd =
    @Sendable (_ action: any FluxAction, _ witness: FluxDispatchWitness?) -> Int

/// One action on its way past the interceptors of a dispatcher, until everybody has let go of its ``FluxNext``.
@usableFromInline nonisolated final class FluxDispatchContext: Sendable {
    let dispatcher: FluxDispatcher
    /// As they were when the action came.
    let interceptors: ContiguousArray<FluxInterceptors.Entry>
    /// The work whose action it is; nil if it was not fired.
    let origin: FluxTask?
    /// That of the dispatcher that this one is a child of, where the action comes from there.
    let outer: FluxDispatchContext?
    /// Nil: the stores of the dispatcher.
    let end: FluxDispatchEnd?
    /// Who is told of the stores; kept here, since a ``FluxNext`` of one reference is handed on without a retain.
    let witness: FluxDispatchWitness?
    /// The first of the dispatch, which this goes on for with another witness; nil: this is it.
    private let begun: FluxDispatchContext?
    // Relaxed everywhere: it is a count, and orders nothing.
    /// How many changes were announced so far.
    let announced = Synchronization.Atomic<Int>(0)
    /// Whether the dispatch that began it has returned: who goes on now had kept it.
    let isKept = Synchronization.Atomic<Bool>(false)
    /// Whether it is for one store, or for none here.
    let isAddressed: Bool

    init(
        _ dispatcher: FluxDispatcher, _ interceptors: ContiguousArray<FluxInterceptors.Entry>, of origin: FluxTask?,
        from outer: FluxDispatchContext?, to end: FluxDispatchEnd?, telling witness: FluxDispatchWitness? = nil,
        for begun: FluxDispatchContext? = nil
    ) {
        (self.dispatcher, self.interceptors, self.origin) = (dispatcher, interceptors, origin)
        (self.outer, self.end, self.witness, self.begun) = (outer, end, witness ?? outer?.witness, begun)
        isAddressed = outer?.isAddressed ?? (end != nil)
    }

    /// The same with another witness.
    func telling(_ witness: @escaping FluxDispatchWitness) -> FluxDispatchContext {
        FluxDispatchContext(dispatcher, interceptors, of: origin, from: outer, to: end, telling: witness, for: first)
    }

    /// Where it is counted, one step away at most.
    ///
    /// Written as a walk, for which nothing is retained.
    var first: FluxDispatchContext { begun?.first ?? self }

    /// Begins the dispatch.
    func begin(_ action: any FluxAction) -> Int {
        // Relaxed: who goes on while it is written is within a dispatch of the same work; see FluxNext.
        defer { isKept.store(true, ordering: .relaxed) }
        return FluxNext(context: self, position: 0).proceed(action)
    }

    /// Counts changes that were announced here, and on the way from all that it comes from.
    func count(_ changes: Int, above: Bool = false) {
        if let begun { return begun.count(changes, above: above) }
        announced.wrappingAdd(changes, ordering: .relaxed)
        if above && changes != 0 { outer?.count(changes, above: true) }
    }
}

/// Goes on with an action: through the interceptors that are left, and then to the stores.
///
/// It is a value that may be kept, called later and from another thread; it keeps what it leads to alive. Then an action of an event
/// that was cancelled goes no further; within the dispatch that brought it, on its thread, it has passed and goes on (C9).
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxNext: Sendable {
    let context: FluxDispatchContext
    let position: Int

    /// Whose interceptors these are.
    public var dispatcher: FluxDispatcher { context.dispatcher }

    /// The work whose action it is; nil if it was not fired.
    public var origin: FluxTask? { context.origin }

    /// How many changes the stores have announced so far, by way of any `next` of this dispatch.
    public var announced: Int { context.first.announced.load(ordering: .relaxed) }

    /// Goes on; when it returns, the action has been applied, unless an interceptor behind stopped or postponed it.
    ///
    /// Inside `FluxState.handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The action at hand, or any other in its place.
    /// - Returns: How many changes the stores announced.
    /// - Complexity: O(*m* + *n*) for *m* interceptors behind and *n* stores.
    @discardableResult public func callAsFunction(_ action: any FluxAction) -> Int { go { proceed(action) } }

    /// Goes on as this does, and has somebody told of each store that applies the action.
    ///
    /// - Parameter inner: Who is told, also of what an interceptor behind postpones.
    /// - Returns: What goes on so.
    public func telling(_ inner: @escaping FluxDispatchWitness) -> FluxNext {
        guard let before = context.witness else { return FluxNext(context: context.telling(inner), position: position) }
        let both: FluxDispatchWitness = { store, revision, state in
            inner(store, revision, state)
            before(store, revision, state)
        }
        return FluxNext(context: context.telling(both), position: position)
    }

    /// Goes on by way of another dispatcher, and then from here, with what the interceptors of that made of the action.
    ///
    /// In between it goes to the stores of the other dispatcher, unless it is addressed.
    ///
    /// - Parameters:
    ///   - action: The action at hand, or any other in its place.
    ///   - other: The other dispatcher.
    /// - Returns: How many changes the stores announced, those behind among them.
    /// - Complexity: As of the others, and O(*d*) for *d* dispatchers above, which count what the stores announced.
    @discardableResult public func callAsFunction(_ action: any FluxAction, through other: FluxDispatcher) -> Int {
        go {
            other.begin(action, from: context) { action, witness in
                let announced = context.isAddressed ? 0 : other.deliver(action, telling: witness)
                context.count(announced, above: true)
                let onward = witness.map { context.telling($0) } ?? context
                return announced + FluxNext(context: onward, position: position).proceed(action)
            }
        }
    }

    /// Runs what goes on, on behalf of the work whose action it is.
    @inline(__always) private func go(_ body: () -> Int) -> Int {
        let thread = context.dispatcher.threads.requireImpure("next")
        // Within the dispatch that began it it has passed the gate of its event; what was kept passes that again.
        // Relaxed: it is looked at within a dispatch of the same work, which has passed the gate itself.
        if thread.isSending(context.origin) && !context.first.isKept.load(ordering: .relaxed) { return body() }
        return context.origin.map { $0.pass(body) ?? 0 } ?? thread.sending(nil, body)
    }

    @inline(__always) func proceed(_ action: any FluxAction) -> Int {
        var index = position
        let entries = context.interceptors
        // Relaxed: an action that is under way while one is removed may come to it or pass it by.
        while index < entries.count, entries[index].removal.isDone.load(ordering: .relaxed) { index += 1 }
        if index < entries.count {
            // Safe: the context keeps it. To retain it, and what is in it, would take a quarter of the time of all this.
            return Unmanaged.passUnretained(entries[index])._withUnsafeGuaranteedRef {
                $0.interceptor.dispatch(action, on: dispatcher, next: FluxNext(context: context, position: index + 1))
            }
        }
        let announced = context.end?(action, context.witness) ?? dispatcher.deliver(action, telling: context.witness)
        context.count(announced)
        return announced
    }
}
