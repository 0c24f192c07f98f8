import Synchronization

/// Intercepts a dispatch: it may act before and after it, replace the action, stop it or send more actions.
///
/// Middleware is built on this protocol.
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
/// An interceptor is also notified of the events of creators that send to the dispatcher. A dispatcher without
/// interceptors spends nothing on this.
///
/// Thread safety: called on any thread that dispatches, on several at once, with no lock held.
nonisolated public protocol FluxDispatchInterceptor: FluxEventObserver {
    /// Handles an action on its way to the stores.
    ///
    /// - Parameters:
    ///   - action: The dispatched action, or the action that the previous interceptor passed on.
    ///   - dispatcher: The dispatcher that the interceptor belongs to.
    ///   - next: Continues with this action or another one. As a rule, call it once. To stop the action, do not call
    ///     it; to send several actions, call it several times. It may be kept and called later, also from another
    ///     thread.
    /// - Returns: The number of changes that the stores have announced so far: the value that `next` returned.
    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int
}

/// A closure that is notified of each store that applies the action of one dispatch.
///
/// It receives the store, the revision of the change (nil if there is nothing to announce) and a closure that copies
/// the state after the change.
///
/// Thread safety: called on any thread, while the locks of the dispatcher and of the store are held. It must be quick,
/// and must use no store, dispatcher or creator.
public typealias FluxDispatchWitness =
    @Sendable (_ store: FluxStoreInfo, _ revision: UInt64?, _ state: () -> any FluxState) -> Void

/// The interceptors of a dispatcher.
///
/// A separate object: a registration refers to it and not to the dispatcher, which a weak reference
/// would permanently slow down.
@usableFromInline nonisolated final class FluxInterceptorChain: Sendable {
    /// An interceptor in its place.
    final class Entry: Sendable {
        let interceptor: any FluxDispatchInterceptor
        let priority: Int
        /// Once it is done, actions under way that have not reached the interceptor skip it.
        ///
        /// A replacement shares it: removing the replacement makes them skip the replaced interceptor too.
        let removal: Removal

        init(_ interceptor: any FluxDispatchInterceptor, _ priority: Int, _ removal: Removal = Removal()) {
            (self.interceptor, self.priority, self.removal) = (interceptor, priority, removal)
        }
    }

    final class Removal: Sendable { let isDone = Synchronization.Atomic<Bool>(false) }

    /// Whether there are any interceptors; the hot path reads only this.
    @usableFromInline let isUsed = Synchronization.Atomic<Bool>(false)
    private let list = FluxLock<ContiguousArray<Entry>>([])

    /// The entries, in the order in which an action reaches them.
    var entries: ContiguousArray<Entry> { list.withLock { $0 } }

    /// Removes entries; returns how many.
    @discardableResult func remove(where isUnwanted: (Entry) -> Bool) -> Int {
        change("remove() or removeInterceptors") { entries in
            // Relaxed: the list's lock orders it between removals. An action under way may reach
            // the interceptor or skip it.
            for entry in entries where isUnwanted(entry) { entry.removal.isDone.store(true, ordering: .relaxed) }
            entries.removeAll { $0.removal.isDone.load(ordering: .relaxed) }
        }
    }

    /// Changes the list for later actions; returns by how many entries it has shrunk.
    @discardableResult func change(_ call: StaticString, _ body: (inout ContiguousArray<Entry>) -> Void) -> Int {
        FluxPureCode.forbid(call)
        // Removed interceptors belong to the user, so they are released outside the lock.
        let (old, count) = list.withLock { entries in
            let old = entries
            FluxPureCode.run("what picks interceptors") { body(&entries) }
            // Relaxed: written while the list's lock is held; a dispatch that finds it set takes that lock.
            isUsed.store(!entries.isEmpty, ordering: .relaxed)
            return (old, entries.count)
        }
        return old.count - count
    }
}

/// Receives an action after the last interceptor; returns the number of changes announced.
@usableFromInline typealias FluxDispatchEnd =
    @Sendable (_ action: any FluxAction, _ witness: FluxDispatchWitness?) -> Int

/// One action on its way through the interceptors of a dispatcher; it lives until every ``FluxNext`` of it is released.
@usableFromInline nonisolated final class FluxDispatchContext: Sendable {
    let dispatcher: FluxDispatcher
    /// The interceptors at the time of the dispatch.
    let interceptors: ContiguousArray<FluxInterceptorChain.Entry>
    /// The task of the event that sent the action; nil if no event did.
    let origin: FluxTask?
    /// The context of the parent dispatcher, if the action comes from there.
    let outer: FluxDispatchContext?
    /// The destination of the action; nil for the stores of the dispatcher.
    let end: FluxDispatchEnd?
    /// The witness to notify; kept here, because a ``FluxNext`` with only one reference is passed on without a retain.
    let witness: FluxDispatchWitness?
    /// The first context of the dispatch, which this one continues with another witness; nil if this is the first.
    private let original: FluxDispatchContext?
    // Relaxed everywhere: it is a count, and orders nothing.
    /// The number of changes announced so far.
    let announced = Synchronization.Atomic<Int>(0)
    /// Whether the dispatch that began it has returned; a ``FluxNext`` called after that was kept.
    let hasReturned = Synchronization.Atomic<Bool>(false)
    /// Whether the dispatch began with an `end`, as one to a named store does; then it skips the stores of children.
    let isAddressed: Bool

    init(
        _ dispatcher: FluxDispatcher, _ interceptors: ContiguousArray<FluxInterceptorChain.Entry>, of origin: FluxTask?,
        from outer: FluxDispatchContext?, to end: FluxDispatchEnd?, telling witness: FluxDispatchWitness? = nil,
        for original: FluxDispatchContext? = nil
    ) {
        (self.dispatcher, self.interceptors, self.origin) = (dispatcher, interceptors, origin)
        (self.outer, self.end, self.witness, self.original) = (outer, end, witness ?? outer?.witness, original)
        isAddressed = outer?.isAddressed ?? (end != nil)
    }

    /// Returns this context with another witness.
    func telling(_ witness: @escaping FluxDispatchWitness) -> FluxDispatchContext {
        FluxDispatchContext(dispatcher, interceptors, of: origin, from: outer, to: end, telling: witness, for: first)
    }

    /// The context that counts for this dispatch, at most one step away.
    ///
    /// Written as recursion, which retains nothing.
    var first: FluxDispatchContext { original?.first ?? self }

    /// Begins the dispatch.
    func begin(_ action: any FluxAction) -> Int {
        // Relaxed: a thread that reads this meanwhile is within a dispatch of the same task; see FluxNext.
        defer { hasReturned.store(true, ordering: .relaxed) }
        return FluxNext(context: self, position: 0).proceed(action)
    }

    /// Counts changes announced here and, with `above`, in all outer contexts too.
    func count(_ changes: Int, above: Bool = false) {
        if let original { return original.count(changes, above: above) }
        announced.wrappingAdd(changes, ordering: .relaxed)
        if above && changes != 0 { outer?.count(changes, above: true) }
    }
}

/// Passes an action on: through the remaining interceptors, and then to the stores.
///
/// It is a value that may be kept, and called later or from another thread; it keeps its dispatcher alive. A later
/// call, or one on another thread, stops the action if its event was cancelled. A call within the original dispatch, on
/// its thread, still proceeds, because the action has already passed the gate (C9).
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxNext: Sendable {
    let context: FluxDispatchContext
    let position: Int

    /// The dispatcher that the interceptors belong to.
    public var dispatcher: FluxDispatcher { context.dispatcher }

    /// The task of the event that sent the action; nil if no event did.
    public var origin: FluxTask? { context.origin }

    /// The number of changes that the stores have announced so far through any `next` of this dispatch.
    public var announced: Int { context.first.announced.load(ordering: .relaxed) }

    /// Passes an action on; it has been applied when this returns, unless a later interceptor stopped or postponed it.
    ///
    /// A call inside `FluxState.handle(action:)` stops the program with a message (C6).
    ///
    /// - Parameter action: The current action, or any other in its place.
    /// - Returns: The number of changes that the stores announced.
    /// - Complexity: O(*m* + *n*) for *m* remaining interceptors and *n* stores.
    @discardableResult public func callAsFunction(_ action: any FluxAction) -> Int { go { proceed(action) } }

    /// Returns a `FluxNext` that also notifies a witness of each store that applies the action.
    ///
    /// - Parameter inner: The witness to notify, also of an action that a later interceptor postpones.
    /// - Returns: The `FluxNext` with that witness.
    public func telling(_ inner: @escaping FluxDispatchWitness) -> FluxNext {
        guard let before = context.witness else { return FluxNext(context: context.telling(inner), position: position) }
        let both: FluxDispatchWitness = { store, revision, state in
            inner(store, revision, state)
            before(store, revision, state)
        }
        return FluxNext(context: context.telling(both), position: position)
    }

    /// Passes an action through another dispatcher, then continues here with the action that
    /// its interceptors passed on.
    ///
    /// In between, the stores of the other dispatcher receive the action, unless it was dispatched by
    /// ``FluxDispatcher/pass(_:to:)``.
    ///
    /// - Parameters:
    ///   - action: The current action, or any other in its place.
    ///   - other: The other dispatcher.
    /// - Returns: The number of changes that the stores of the other dispatcher, and all stores after it, announced.
    /// - Complexity: That of both dispatches, and O(*d*) for *d* outer dispatchers, which count the changes.
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

    /// Runs a continued dispatch on behalf of the task whose action it is.
    @inline(__always) private func go(_ body: () -> Int) -> Int {
        let thread = context.dispatcher.threads.requireImpure("next")
        // Within the original dispatch the action has passed the gate of its event; a kept one passes the gate again.
        // Relaxed: it is read only within a dispatch of the same task, which has passed the gate itself.
        if thread.isSending(context.origin) && !context.first.hasReturned.load(ordering: .relaxed) { return body() }
        return context.origin.map { $0.pass(body) ?? 0 } ?? thread.sending(nil, body)
    }

    @inline(__always) func proceed(_ action: any FluxAction) -> Int {
        var index = position
        let entries = context.interceptors
        // Relaxed: while an interceptor is being removed, an action under way may reach it or skip it.
        while index < entries.count, entries[index].removal.isDone.load(ordering: .relaxed) { index += 1 }
        if index < entries.count {
            // Safe: the context keeps the entry. To retain it and its contents would take a quarter of the total time.
            return Unmanaged.passUnretained(entries[index])._withUnsafeGuaranteedRef {
                $0.interceptor.dispatch(action, on: dispatcher, next: FluxNext(context: context, position: index + 1))
            }
        }
        let announced = context.end?(action, context.witness) ?? dispatcher.deliver(action, telling: context.witness)
        context.count(announced)
        return announced
    }
}
