/// Somebody who looks on at a store: persistence, history, instrumentation, subscriptions to actions, a journal of yours.
///
/// ```swift
/// final class Journal: FluxStoreObserver {
///     let lines = FluxLock([String]())
///     func applied(_ change: FluxChange<Cart>, _ state: Cart, revision: UInt64?) -> (any FluxSettling)? {
///         lines.withLock { $0.append("\(change.action) made \(state)") }
///         return nil
///     }
/// }
/// store.handle.withAccess { $0.observe(journal) }
/// ```
///
/// It is also told of the events of creators that send to the store, unless it settles first. A store without observers spends nothing on them.
///
/// Thread safety: `applied` is called under the lock of the store, on any thread.
nonisolated public protocol FluxStoreObserver<State>: AnyObject, FluxEventObserver {
    /// The state of the stores it looks on at.
    associatedtype State: FluxState

    /// A change is about to be applied.
    ///
    /// `applied` follows, unless a change of the kind `other` turns out to change nothing. Called under the lock of the store, in the
    /// order applied: it must be quick, and use no store, dispatcher or creator.
    ///
    /// - Parameter change: What is applied next; it was not held back.
    func applying(_ change: FluxChange<State>)

    /// A change was applied; what is announced has a revision.
    ///
    /// Called under the lock of the store, in the order applied: it must be quick, and use no store, dispatcher or creator. A lock that
    /// it takes is to be held by nobody who uses a store, or asks where one is attached.
    ///
    /// - Parameters:
    ///   - change: What was applied.
    ///   - state: The state after it.
    ///   - revision: Its revision; nil if there is nothing to announce.
    /// - Returns: Whom to settle once the lock is free; nil for nobody.
    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)?

    /// The store was let go.
    ///
    /// Called in the order added. Those who end what they deliver, as subscriptions to a part do, hear of nothing that one who was added
    /// after them has still to tell the store. Who begins to look on after this was asked of the others is not asked.
    ///
    /// - Parameter finish: Ends the subscriptions of the store after what is due, once the last observer has called it.
    /// - Returns: Whether this observer has something to do before that, and calls `finish`.
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool

    /// Waits until all that was applied before is done with, or never will be; part of ``FluxStore/flush()``.
    func flush() async

    /// Waits as ``flush()`` does, but no longer than to the first attempt that fails.
    ///
    /// - Returns: What it failed with; `CancellationError` if the task was cancelled before that; nil if all was done.
    func failure() async -> (any Swift.Error)?
}

nonisolated extension FluxStoreObserver {
    /// By default what comes is of no interest.
    @inlinable public func applying(_ change: FluxChange<State>) {}

    /// By default the store ends without it.
    public func ending(_ finish: @escaping @Sendable () -> Void) -> Bool { false }

    /// By default there is nothing to wait for.
    public func flush() async {}

    /// By default nothing fails, but that the task was cancelled, and nothing is waited for.
    ///
    /// So who saves has a function of its own, beside its ``flush()``.
    public func failure() async -> (any Swift.Error)? {
        _Concurrency.Task.isCancelled ? _Concurrency.CancellationError() : nil
    }
}

/// An observer as the store keeps it: what each change calls is made where its type is known, or would take three times as long.
@usableFromInline nonisolated struct FluxObserverEntry<State: FluxState>: Sendable {
    @usableFromInline let observer: any FluxStoreObserver<State>
    @usableFromInline let settlesFirst: Bool
    @usableFromInline let applied: @Sendable (FluxChange<State>, State, UInt64?) -> FluxWakes
    @usableFromInline let applying: @Sendable (FluxChange<State>) -> Void

    @inlinable init<Observer: FluxStoreObserver<State>>(_ observer: Observer, settlesFirst: Bool) {
        (self.observer, self.settlesFirst) = (observer, settlesFirst)
        applying = { observer.applying($0) }
        applied = { observer.applied($0, $1, revision: $2).map { .some($0, isFirst: settlesFirst) } ?? .none }
    }
}
