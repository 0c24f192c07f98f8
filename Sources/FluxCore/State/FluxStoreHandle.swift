import Dispatch
import Synchronization

/// Reaches the state and the lock of a store without being the store: what a writer, a view or another module keeps.
///
/// The store ends when its ``FluxStore`` is let go, though handles be kept; a handle keeps the state in memory.
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
nonisolated public final class FluxStoreHandle<State: FluxState>: FluxStoreHandling, FluxLeaving {
    @usableFromInline typealias JobResult = (reducer: FluxReducer?, stamp: UInt64, state: (@Sendable () -> State)?)

    // The two that each dispatch looks at, side by side.
    @usableFromInline let threads = FluxThreads.shared
    @usableFromInline let lock: FluxLock<FluxStoreAccess<State>>
    /// Does a job as the client's module has specialised it: unspecialised it takes 20 times as long.
    @usableFromInline let work: @Sendable (FluxStoreHandle, FluxStoreJob<State>) -> JobResult
    let membership = FluxLock(FluxMembership())
    let lastKey = Synchronization.Atomic<UInt64>(0)
    /// Made on first use, without a lock: who is told that the store leaves asks for it under the others.
    private let lazyExtras = FluxLazy<FluxStoreExtras>()

    // Inlined by force: a call would count the references in the state once more and once less.
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

    /// Does several things in one step, with the lock of the store held: nothing is applied between them.
    ///
    /// Who has to be told, and what is to be let go of, is so once the lock is free.
    ///
    /// - Parameter body: Gets the access; pure as `handle(action:)` is, and quick.
    /// - Returns: What the closure returns.
    @inlinable public func withAccess<Result>(_ body: (inout FluxStoreAccess<State>) -> Result) -> Result {
        let thread = threads.requireImpure("FluxStoreHandle.withAccess")
        // Outside of what the closure returns: where that is generic, a tuple of it takes longer than all the rest.
        var rest: (wakes: FluxWakes, gone: [Any]) = (.none, [])
        let result = lock.withLock { machine in
            thread.purely(self) {
                defer { machine.takeRest(&rest) }
                return body(&machine)
            }
        }
        withExtendedLifetime(rest.gone) { rest.wakes.settle() }
        return result
    }

    /// The state after the last change that was applied.
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
        let (member, due) = lock.withLock { machine in
            machine.mailboxes.join(self, delivery, queue, startsWithCurrent ? machine.state : nil, handler)
        }
        due?.settle()
        return FluxSubscription(member)
    }

    @usableFromInline func leave(_ id: UInt64) { _ = work(self, .leave(id, FluxMailbox<State>.plain)) }

    @usableFromInline func waitForCall() async { await wait(for: FluxMailbox<State>.plain, forCall: true) }

    /// Waits until all that is due on a delivery has been handed over, or no call there is under way; false: the task was cancelled.
    @inlinable @discardableResult func wait(for delivery: UInt64, forCall: Bool) async -> Bool {
        FluxPureCode.forbid("finish()")
        return await FluxLatch.wait { latch in
            lock.withLock { $0.mailboxes.list.update(id: delivery) { $0.wait(latch, forCall: forCall) } } == true
                ? latch : nil
        } withdrawing: { latch in
            lock.withLock { $0.mailboxes.list.update(id: delivery) { $0.waiters[ObjectIdentifier(latch)] = nil } }
        }
    }

    // MARK: - What few stores need

    /// The store's own serial queue, made when it is first needed.
    public var queue: DispatchQueue { extras.queue.object(fluxQueue("FluxStore")) }

    /// What the store is called in messages; nil: by its type.
    ///
    /// A module that gives names sets it. It goes when the store has ended.
    public var label: String? {
        get { featureIfAny(FluxLabel.self)?.text.withLock { $0 } }
        set { feature(FluxLabel.self, FluxLabel.init).text.withLock { $0 = newValue } }
    }

    private var extras: FluxStoreExtras { lazyExtras.object(FluxStoreExtras()) }

    /// What a module keeps with the store, for as long as that lives.
    ///
    /// - Parameters:
    ///   - type: Its type, of which a store has one.
    ///   - make: Makes it on first use; where two threads come at once, one of the two that they made is kept.
    /// - Returns: The feature.
    public func feature<Feature: AnyObject & Sendable>(_ type: Feature.Type, _ make: () -> Feature) -> Feature {
        if let known = featureIfAny(type) { return known }
        threads.requireImpure("feature(_:_:) or label of a store")
        let made = extras.features.feature(type, make)
        // A store that has ended meanwhile would never let go of it.
        if lock.withLock({ $0.mailboxes.isEnded }) { extras.features.removeAll() }
        return made
    }

    /// What a module keeps with the store, if it has been made.
    ///
    /// - Parameter type: Its type.
    /// - Returns: The feature; nil if nobody has made it.
    public func featureIfAny<Feature: AnyObject & Sendable>(_ type: Feature.Type) -> Feature? {
        lazyExtras.object?.features.featureIfAny(type)
    }

    // MARK: - Ending

    /// Waits until every change applied before has been handed to every subscription and every observer is done with it.
    ///
    /// It returns early when the task is cancelled; returns whether all of it was done.
    @inlinable @discardableResult func flush() async -> Bool {
        FluxPureCode.forbid("flush()")
        for entry in lock.withLock({ $0.observers }) { await entry.observer.flush() }
        var isDone = await failure() == nil
        // The ids alone: with the mailboxes it would keep what waits in them.
        for delivery in lock.withLock({ $0.mailboxes.list.pairs().map { $0.id } }) {
            isDone = await wait(for: delivery, forCall: false) && isDone
        }
        return isDone
    }

    /// Waits until those who look on are done with every change applied before, or the first of them fails.
    ///
    /// Those who have the default of ``FluxStoreObserver/failure()`` are not waited for: most subscriptions are among them.
    ///
    /// - Returns: What kept one of them from being done, such as the error of a save, or `CancellationError`; nil if all are.
    @inlinable public func failure() async -> (any Swift.Error)? {
        FluxPureCode.forbid("failure()")
        for entry in lock.withLock({ $0.observers }) { if let error = await entry.observer.failure() { return error } }
        return nil
    }

    /// Those who are told of events whose actions go to the store.
    @inlinable public var eventObservers: ContiguousArray<any FluxEventObserver> {
        ContiguousArray(read { $0.observers }.compactMap { $0.settlesFirst ? nil : $0.observer })
    }

    /// The store was let go: it leaves its dispatcher, and ends its subscriptions after what is due.
    func end() {
        leave(nil)
        remove { _ in true }
        _ = work(self, .end)
    }

    /// Ends after those who look on have done what is due, one after the other.
    @inlinable func end(after observers: ArraySlice<FluxObserverEntry<State>>) {
        for (index, entry) in zip(observers.indices, observers) {
            if entry.observer.ending({ FluxPureCode.after { self.end(after: observers[(index + 1)...]) } }) { return }
        }
        // In place: a copy would retain all that is in it.
        var mailboxes = lock.withLock { $0.mailboxes.end() }
        mailboxes.updateEach { $0.letGo() }
        endFeatures()
        _ = lock.withLock { machine in
            let gone = Swift.exchange(&machine.observing, with: nil)
            // Who still saves asks for the revision.
            if let gone, gone.skipped > 0 { machine.makeObserving().skipped = gone.skipped }
            return gone
        }
    }

    @usableFromInline func endFeatures() { lazyExtras.object?.features.removeAll() }
}

/// What a store needs only once it does more than hold a state.
nonisolated final class FluxStoreExtras: Sendable {
    /// Made on first use: it costs more than all the rest.
    let queue = FluxLazy<DispatchQueue>()
    let features = FluxFeatures()
}

/// What few stores are called; with the features, for it would make every store larger.
nonisolated final class FluxLabel: Sendable { let text = FluxLock<String?>(nil) }

/// What the handle of a store has done where the types are known.
@usableFromInline nonisolated enum FluxStoreJob<State: FluxState> {
    case drain(FluxStateDelivery<State>)
    /// Takes a subscription out, by its id and that of its mailbox.
    case leave(UInt64, UInt64)
    /// Ends all subscriptions, after those who look on.
    case end
    /// Makes what leads to `handle`, and keeps a store if it is given one.
    case reducer(keeping: FluxReducer.Kept?)
    /// Reads the stamp, or the state for a cut: a view does so of each of its stores whenever it is read.
    case stamp, capture(FluxCut)
}
