/// An observer of a store: persistence, history, instrumentation, subscriptions to actions, or a journal of your own.
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
/// It is also notified of the events of creators that send to the store, unless it settles first: see
/// ``FluxStoreAccess/observe(_:settlesFirst:)``. A store without observers spends nothing on events.
///
/// Thread safety: `applying` and `applied` are called on any thread, while the store's lock is held.
nonisolated public protocol FluxStoreObserver<State>: AnyObject, FluxEventObserver {
    /// The type of state of the observed stores.
    associatedtype State: FluxState

    /// Called before a change is applied.
    ///
    /// ``applied(_:_:revision:)`` follows, unless a change of the kind ``FluxChange/other(_:_:)`` turns out to change
    /// nothing. Both are called while the store's lock is held, in the order applied: be quick, and use no store,
    /// dispatcher or creator.
    ///
    /// - Parameter change: The change to be applied; it was not held back.
    func applying(_ change: FluxChange<State>)

    /// Called after a change was applied; an announced change has a revision.
    ///
    /// Called while the store's lock is held, in the order applied: be quick, and use no store, dispatcher or creator.
    /// If this takes a lock, code that holds that lock must not use a store, nor ask where a store is attached.
    ///
    /// - Parameters:
    ///   - change: The applied change.
    ///   - state: The state after it.
    ///   - revision: The revision of the change; nil if there is nothing to announce.
    /// - Returns: What to settle once the lock is free; nil if there is nothing to settle.
    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)?

    /// Called when the store has been released.
    ///
    /// Observers are called in the order added. A later observer may still apply changes to the store while it ends; an
    /// observer that has ended its own deliveries by then, as a subscription to a part does, does not deliver them. An
    /// observer that is added after these calls have begun is not called.
    ///
    /// - Parameter finish: Continues the end of the store with the next observer. After the last one, the subscriptions
    ///   of the store end once pending changes are delivered.
    /// - Returns: True if this observer has work to do first, and will call `finish` after it.
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool

    /// Waits until the observer has handled every change applied before, or never will; part of ``FluxStore/flush()``.
    func flush() async

    /// Waits as ``flush()`` does, but returns early if an attempt to handle the changes fails, such as a save.
    ///
    /// - Returns: The error of that attempt; `CancellationError` if the task was cancelled first; nil if all was done.
    func failure() async -> (any Swift.Error)?
}

nonisolated extension FluxStoreObserver {
    /// By default does nothing.
    @inlinable public func applying(_ change: FluxChange<State>) {}

    /// By default the store ends without waiting for the observer.
    public func ending(_ finish: @escaping @Sendable () -> Void) -> Bool { false }

    /// By default there is nothing to wait for.
    public func flush() async {}

    /// By default waits for nothing, and returns nil, or `CancellationError` if the task was cancelled.
    ///
    /// An observer that saves implements this in addition to ``flush()``.
    public func failure() async -> (any Swift.Error)? {
        _Concurrency.Task.isCancelled ? _Concurrency.CancellationError() : nil
    }
}

/// An observer as the store keeps it.
///
/// The closures that each change calls are created where the observer's type is known; otherwise they would take three
/// times as long.
@usableFromInline nonisolated struct FluxObserverEntry<State: FluxState>: Sendable {
    @usableFromInline let observer: any FluxStoreObserver<State>
    @usableFromInline let settlesFirst: Bool
    @usableFromInline let applied: @Sendable (FluxChange<State>, State, UInt64?) -> FluxWakes
    @usableFromInline let applying: @Sendable (FluxChange<State>) -> Void

    @inlinable init<Observer: FluxStoreObserver<State>>(_ observer: Observer, settlesFirst: Bool) {
        (self.observer, self.settlesFirst) = (observer, settlesFirst)
        applying = { observer.applying($0) }
        applied = { observer.applied($0, $1, revision: $2).map { .some($0, settlesFirst: settlesFirst) } ?? .none }
    }
}
