import Dispatch
import Synchronization

/// Gives access to the state and the lock of a store without keeping the store: for writers, views and other modules.
///
/// A handle keeps the state in memory, but not the store: the store ends when its ``FluxStore`` is released, even if
/// handles remain.
///
/// ```swift
/// let revision = store.handle.withAccess { access in
///     access.observe(journal)
///     return access.revision  // in one step: no change lies between the two
/// }
/// ```
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters; not inside
/// `FluxState.handle(action:)`.
nonisolated public final class FluxStoreHandle<State: FluxState>: FluxStoreHandling, FluxDeliverer {
    @usableFromInline typealias JobResult = (reducer: FluxReducer?, stamp: UInt64, state: (@Sendable () -> State)?)

    // The two fields that each dispatch reads are side by side.
    @usableFromInline let threads = FluxThreads.shared
    @usableFromInline let lock: FluxLock<FluxStoreAccess<State>>
    /// Runs a job in code that the client's module has specialised; unspecialised code takes 20 times as long.
    @usableFromInline let work: @Sendable (FluxStoreHandle, FluxStoreJob<State>) -> JobResult
    let membership = FluxLock(FluxMembership())
    let atomicPlaceKey = Synchronization.Atomic<UInt64>(0)
    /// Created on first use, without a lock of its own, because other locks may be held then.
    ///
    /// `FluxDispatcherObserver.detached(_:)`, for example, may use it with the locks of the membership and of the
    /// dispatcher held.
    private let lazyExtras = FluxLazy<FluxStoreExtras>()

    // Forced inline: a call would retain and release the references in the state once more.
    @inlinable @inline(__always) init(initialState: State) {
        lock = FluxLock(FluxStoreAccess(state: initialState))
        work = { handle, job in
            switch job {
            case .drain(let delivery): delivery.drain()
            case .leave(let id, let mailbox):
                var rest = handle.lock.withLock { $0.mailboxes.leave(id, mailbox) }
                rest.retire()
                rest.open()
            case .end: handle.end(after: handle.lock.withLock { $0.observers }[...])
            case .reducer(let store): return (FluxReducer.main(State.self, keeping: store), 0, nil)
            case .stamp: return (nil, handle.read { $0.stamp }, nil)
            case .capture(let cut):
                let state = cut.reading(of: handle) { handle.read { $0.state } }
                return (nil, 0, { state })
            }
            return (nil, 0, nil)
        }
    }

    // MARK: - Reaching the state

    /// Performs several operations atomically while holding the store's lock; no action is applied in between.
    ///
    /// Notifications are sent, and replaced values released, after the lock is free.
    ///
    /// - Parameter body: Receives the access; must be quick, and pure like `handle(action:)`.
    /// - Returns: The closure's result.
    @inlinable public func withAccess<Result>(_ body: (inout FluxStoreAccess<State>) -> Result) -> Result {
        let thread = threads.requireImpure("FluxStoreHandle.withAccess")
        // A variable, and not part of the closure's result: a tuple with the generic result would take longer than
        // everything else here.
        var rest: (wakes: FluxWakes, gone: [Any]) = (.none, [])
        let result = lock.withLock { access in
            thread.purely(self) {
                defer { access.takeRest(&rest) }
                return body(&access)
            }
        }
        withExtendedLifetime(rest.gone) { rest.wakes.settle() }
        return result
    }

    /// The state after the last applied change.
    @inlinable public var state: State { read { $0.state } }

    @inlinable @inline(__always) func read<Value>(_ body: (borrowing FluxStoreAccess<State>) -> Value) -> Value {
        threads.requireImpure("state or revision of a store")
        return lock.withLock { body($0) }
    }

    // MARK: - Delivering

    @inlinable func subscribe(
        _ delivery: FluxDelivery, _ queue: DispatchQueue?, _ startsWithCurrent: Bool,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        threads.requireImpure("subscribe")
        let (member, due) = lock.withLock { access in
            access.mailboxes.join(self, delivery, queue, startsWithCurrent ? access.state : nil, handler)
        }
        due?.settle()
        return FluxSubscription(member)
    }

    @usableFromInline func leave(_ id: UInt64) { _ = work(self, .leave(id, FluxMailbox<State>.plain)) }

    @usableFromInline func waitForCall() async { await wait(for: FluxMailbox<State>.plain, forCall: true) }

    /// Waits until everything pending in a mailbox has been delivered or, with `forCall`, until no call is running.
    ///
    /// The mailbox is given by its id. Returns false if the task is cancelled.
    @inlinable @discardableResult func wait(for mailboxID: UInt64, forCall: Bool) async -> Bool {
        FluxPureCode.forbid("finish()")
        return await FluxLatch.wait { latch in
            lock.withLock { $0.mailboxes.list.update(id: mailboxID) { $0.wait(latch, forCall: forCall) } } == true
                ? latch : nil
        } withdrawing: { latch in
            lock.withLock { $0.mailboxes.list.update(id: mailboxID) { $0.waiters[ObjectIdentifier(latch)] = nil } }
        }
    }

    // MARK: - Rarely used

    /// The store's own serial queue, created on first use.
    public var queue: DispatchQueue { extras.queue.object(fluxQueue("FluxStore")) }

    /// The store's name in messages; nil if messages show the type of its state instead.
    ///
    /// A module that names stores sets it. It is removed when the store ends.
    public var label: String? {
        get { featureIfAny(FluxLabel.self)?.text.withLock { $0 } }
        set { feature(FluxLabel.self, FluxLabel.init).text.withLock { $0 = newValue } }
    }

    @usableFromInline var extras: FluxStoreExtras { lazyExtras.object(FluxStoreExtras()) }

    /// Returns what a module keeps with the store for the store's lifetime, and creates it on first use.
    ///
    /// Once the store has ended, it keeps nothing: each call creates a feature for its caller alone.
    ///
    /// - Parameters:
    ///   - type: The type of the feature; a store has one feature of each type.
    ///   - make: Creates the feature on first use. If two threads do so at once, one of the two features is kept.
    /// - Returns: The feature.
    public func feature<Feature: AnyObject & Sendable>(_ type: Feature.Type, _ make: () -> Feature) -> Feature {
        if let known = featureIfAny(type) { return known }
        threads.requireImpure("feature(_:_:) or label of a store")
        return extras.features.feature(type, make)
    }

    /// Returns what a module keeps with the store, if it has been created.
    ///
    /// - Parameter type: The type of the feature.
    /// - Returns: The feature; nil if it has not been created.
    public func featureIfAny<Feature: AnyObject & Sendable>(_ type: Feature.Type) -> Feature? {
        lazyExtras.object?.features.featureIfAny(type)
    }

    // MARK: - Ending

    /// Waits until every change applied before is delivered to every subscription and handled by every observer.
    ///
    /// Returns whether all of it was done. Returns early when the task is cancelled.
    @inlinable @discardableResult func flush() async -> Bool {
        FluxPureCode.forbid("flush()")
        for entry in lock.withLock({ $0.observers }) { await entry.observer.flush() }
        var isDone = await failure() == nil
        // The ids alone: a copy of the mailboxes would keep their pending states.
        for mailboxID in lock.withLock({ $0.mailboxes.list.pairs().map { $0.id } }) {
            isDone = await wait(for: mailboxID, forCall: false) && isDone
        }
        return isDone
    }

    /// Waits until the observers have handled every change applied before, or until the first of them fails.
    ///
    /// Observers that use the default ``FluxStoreObserver/failure()`` are not waited for. Most subscriptions are such
    /// observers.
    ///
    /// - Returns: The error of the first observer that failed, such as that of a save, or `CancellationError`; nil if
    ///   all have handled the changes.
    @inlinable public func failure() async -> (any Swift.Error)? {
        FluxPureCode.forbid("failure()")
        for entry in lock.withLock({ $0.observers }) { if let error = await entry.observer.failure() { return error } }
        return nil
    }

    /// The observers to notify of events whose actions go to the store.
    ///
    /// - Complexity: O(*o*) for *o* observers.
    @inlinable public var eventObservers: [any FluxEventObserver] {
        read { $0.observers }.compactMap { $0.settlesFirst ? nil : $0.observer }
    }

    /// Ends a released store: it leaves its dispatcher, and ends its subscriptions after pending deliveries.
    func end() {
        detach(from: nil)
        removeReactions { _ in true }
        _ = work(self, .end)
    }

    /// Ends the store after its observers have finished their pending work, one after the other.
    @inlinable func end(after observers: ArraySlice<FluxObserverEntry<State>>) {
        for (index, entry) in zip(observers.indices, observers) {
            if entry.observer.ending({ FluxPureCode.after { self.end(after: observers[(index + 1)...]) } }) { return }
        }
        // Updated in place: a copy would retain everything in it.
        var mailboxes = lock.withLock { $0.mailboxes.end() }
        mailboxes.updateEach { $0.close() }
        extras.features.close()
        _ = lock.withLock { access in
            let gone = Swift.exchange(&access.observing, with: nil)
            // An observer that is still saving reads the revision.
            if let gone, gone.skipped > 0 { access.makeObserving().skipped = gone.skipped }
            return gone
        }
    }

}

/// What a store needs only if it does more than hold a state.
@usableFromInline nonisolated final class FluxStoreExtras: Sendable {
    /// Created on first use: it costs more than all the rest.
    let queue = FluxLazy<DispatchQueue>()
    @usableFromInline let features = FluxFeatures()
}

/// A store's name, kept as a feature because few stores have one: a field would make every store larger.
nonisolated final class FluxLabel: Sendable { let text = FluxLock<String?>(nil) }

/// A job that a store's handle runs in code that knows the types.
@usableFromInline nonisolated enum FluxStoreJob<State: FluxState> {
    case drain(FluxStateDelivery<State>)
    /// Removes a subscription, by its id and the id of its mailbox.
    case leave(UInt64, UInt64)
    /// Ends all subscriptions, after the observers have finished.
    case end
    /// Creates the reducer that leads to `handle`, and that keeps the store if there is one.
    case reducer(keeping: FluxReducer.Kept?)
    /// Reads the stamp, or the state for a cut; every read of a view does so for each of its stores.
    case stamp, capture(FluxCut)
}
