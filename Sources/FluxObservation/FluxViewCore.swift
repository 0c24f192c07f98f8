import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// The core of a view: its sources, its last value, and the computation.
///
/// It holds the last value in its own store, so a view can be watched in every way that a store can. It keeps the
/// sources alive, so nothing may keep it longer than its ``FluxView`` lives: a source would otherwise handle actions
/// after its last owner has released it.
@usableFromInline
nonisolated final class FluxViewCore<Value: Sendable>: Sendable {
    @usableFromInline let inner: FluxStore<FluxDerived<Value>>
    @usableFromInline let sources: FluxViewSources
    /// Tells whether two values count as equal.
    @usableFromInline let isSame: @Sendable (Value, Value) -> Bool
    /// Reads the sources; created where their types are known, which keeps reading them cheap.
    @usableFromInline let capture: @Sendable (FluxCut) -> @Sendable () -> Value
    /// Takes a cut and computes the value.
    @usableFromInline let take: @Sendable (FluxViewSources) -> (number: UInt64, value: Value)
    /// The number of subscriptions to the view, and the token that watches the sources while there are any.
    private let watchers = FluxLock<(users: Int, token: FluxSubscription?)>((0, nil))
    /// Leads to this object, for closures that may outlive it.
    @usableFromInline let reach = FluxViewReach<Value>()
    /// The queue on which the view computes for its subscriptions.
    private let queue = DispatchQueue(label: "FluxView", autoreleaseFrequency: .workItem, target: .global())

    @inlinable
    init(
        _ sources: FluxViewSources, by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ capture: @escaping @Sendable (FluxCut) -> @Sendable () -> Value,
        _ take: @escaping @Sendable (FluxViewSources) -> (number: UInt64, value: Value)
    ) {
        (self.sources, self.isSame, self.capture, self.take) = (sources, isSame, capture, take)
        let stamp = sources.stamp()
        let first = take(sources)
        inner = FluxStore(
            initialState: FluxDerived(value: first.value, stamp: stamp, cut: first.number), dispatcher: nil)
        reach.core.withLock { $0 = self }
    }

    // MARK: - Computing

    /// Returns the value, recomputed only if a change was applied since the last computation.
    ///
    /// Stamps of stores only grow. If their sum is that of the known value, no store has changed since, and the value
    /// is that of a moment within this call: no dispatcher has to be paused.
    @inlinable @discardableResult
    func upToDate() -> FluxDerived<Value> {
        FluxPureCode.forbid("a view")
        let known = inner.state
        let stamp = sources.stamp()
        return known.stamp == stamp ? known : refresh(known, stamp)
    }

    /// Computes the value from the sources, and announces it if it differs.
    ///
    /// The value is kept with the stamp from before the cut: the cut has every change that this
    /// stamp counts, and perhaps more.
    @inlinable @inline(never)
    func refresh(_ old: FluxDerived<Value>, _ stamp: UInt64) -> FluxDerived<Value> {
        let cut = take(sources)
        return inner.replace(old, with: FluxDerived(value: cut.value, stamp: stamp, cut: cut.number), by: isSame)
    }

    /// Takes a cut, and returns a closure that computes the value and keeps no source; nil if nothing changed
    /// or there is no subscription.
    ///
    /// Values that may have lost their other references go into `spent`, to be released once no lock
    /// is held: they are the user's.
    func cut(_ spent: inout [Any]) -> (@Sendable () -> Void)? {
        if watchers.withLock({ $0.users }) == 0 { return nil }
        let (known, stamp, inner, isSame) = (inner.state, sources.stamp(), inner, isSame)
        spent.append(known)
        if known.stamp == stamp { return nil }
        let (number, compute) = sources.take(capture, { $0 }, spent: { spent.append($0) })
        return {
            _ = inner.replace(known, with: FluxDerived(value: compute(), stamp: stamp, cut: number), by: isSame)
        }
    }

    /// Captures the inputs of the value for the cut of another view.
    @inlinable
    func capture(in cut: FluxCut) -> @Sendable () -> Value {
        if cut.isShared {
            let once = cut.reading(of: self) { FluxOnce(capture(cut)) }
            return { once.value }
        }
        // An unshared cut reads each store once. None of these was read before, so the known value
        // may stand for reading them now.
        let known = inner.state
        if known.stamp == sources.stamp() { return { known.value } }
        // This may be the last reference to the known value, which is released once no lock is held.
        let compute = capture(cut)
        return { withExtendedLifetime(known) { compute() } }
    }

    // MARK: - Watching

    /// Compares, for a subscription that skips values, the one delivered last with the one announced now.
    ///
    /// The current value is not used: with a tolerance, it may count as equal to two values that do not
    /// count as equal to each other.
    @inlinable var distinct: FluxDistinct<FluxDerived<Value>> {
        FluxDistinct(by: { [isSame] in isSame($0.value, $1.announced) })
    }

    /// Makes the view compute at each change of a source for as long as a subscription lasts.
    func following(_ join: () -> FluxSubscription) -> FluxSubscription {
        let isFirst = watchers.withLock { watchers in
            watchers.users += 1
            return watchers.users == 1
        }
        if isFirst {
            // One computation covers all changes that come before it. A subscription that joins meanwhile is
            // covered by `upToDate()` below.
            let alarm = FluxViewAlarm(on: queue) { [reach] in reach.bringUp() }
            let token = sources.watch { alarm.ring() }
            watchers.withLock { $0.token = token }
        }
        upToDate()
        return FluxSubscription([join(), FluxFeed { [weak self] in self?.leave() }.token])
    }

    /// Records that a subscription has ended; after the last one, the view watches no source
    /// and computes only when read.
    private func leave() {
        let token = watchers.withLock { watchers in
            watchers.users -= 1
            return watchers.users == 0 ? Swift.exchange(&watchers.token, with: nil) : nil
        }
        token?.unsubscribe()
    }

    /// Ends the core when its view is released: reads pending changes, schedules their
    /// computation, and becomes unreachable.
    ///
    /// The computation runs on the view's queue, because it is user code and the last reference to the view may be
    /// released while a lock is held. Afterwards the inner store is released, which ends the subscriptions.
    @usableFromInline
    func end() {
        var spent: [Any] = []
        let due = cut(&spent)
        reach.core.withLock { $0 = nil }
        if let due { queue.async(execute: due) }
    }
}

/// Leads to the core of a view for as long as the view exists, and keeps it no longer; used while the lock is held.
@usableFromInline
nonisolated final class FluxViewReach<Value: Sendable>: Sendable {
    @usableFromInline let core = FluxLock<FluxViewCore<Value>?>(nil)

    @usableFromInline init() {}

    /// Brings the value up to date with the sources, if the view still exists.
    func bringUp() {
        var spent: [Any] = []
        // Pauses no dispatcher, but puts off releases and the end of views: an object released under this lock may be
        // the last to keep this view, whose end takes the lock too.
        let compute = FluxDispatcher.paused([]) { core.withLock { core in core?.cut(&spent) } }
        withExtendedLifetime(spent) { compute?() }
    }
}

nonisolated extension FluxStore {
    /// Replaces an older value of a view, announces the new one if it differs, and returns the newest.
    @inlinable
    func replace<Value>(
        _ old: FluxDerived<Value>, with next: FluxDerived<Value>, by isSame: (Value, Value) -> Bool
    ) -> FluxDerived<Value> where State == FluxDerived<Value> {
        var known = old
        while known.cut < next.cut {
            // Compared with no lock held, and compared again if another thread was faster.
            let action = FluxDerived.Action(next: next, known: known.cut, isSame: isSame(known.announced, next.value))
            if dispatch(action: action) != nil { return next }
            known = state
        }
        return known
    }
}
