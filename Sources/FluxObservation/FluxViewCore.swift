import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// What a view is made of, and computes with.
///
/// It holds the last value in a store of its own, so that it is watched in all the ways a store is. It keeps the sources, and so nobody
/// keeps it longer than its ``FluxView``: a store would take actions of a time in which nobody has it any more.
@usableFromInline
nonisolated final class FluxViewCore<Value: Sendable>: Sendable {
    private struct Watchers {
        /// How many subscriptions to the view there are.
        var users = 0
        /// What tells of changes while there are any.
        var token: FluxSubscription?
    }

    @usableFromInline let inner: FluxStore<FluxDerived<Value>>
    @usableFromInline let sources: FluxViewSources
    /// Whether two values are as good as equal.
    @usableFromInline let isSame: @Sendable (Value, Value) -> Bool
    /// A closure made where the types of the sources are known: that keeps reading them cheap.
    @usableFromInline let capture: @Sendable (FluxCut) -> @Sendable () -> Value
    /// Takes a cut and computes the value.
    @usableFromInline let take: @Sendable (FluxViewSources) -> (number: UInt64, value: Value)
    private let watchers = FluxLock(Watchers())
    /// How those reach this who may outlive it.
    @usableFromInline let reach = FluxViewReach<Value>()
    /// Where the view computes for those who watch it.
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

    /// The value, computed anew only if a change was applied since it was computed last.
    ///
    /// Stamps only grow. So if their sum is that of the known value, no store has changed since, and the value is that of a
    /// moment in this call: no dispatcher has to be stopped.
    @inlinable @discardableResult
    func upToDate() -> FluxDerived<Value> {
        FluxPureCode.forbid("a view")
        let known = inner.state
        let stamp = sources.stamp()
        return known.stamp == stamp ? known : refresh(known, stamp)
    }

    /// Brings the value up to the sources, and announces it if it is another.
    ///
    /// It is kept with the stamp from before the cut, which has all that this tells of, and perhaps more.
    @inlinable @inline(never)
    func refresh(_ old: FluxDerived<Value>, _ stamp: UInt64) -> FluxDerived<Value> {
        let cut = take(sources)
        return inner.replace(old, with: FluxDerived(value: cut.value, stamp: stamp, cut: cut.number), by: isSame)
    }

    /// Takes a cut, the first of two steps, and hands out the second, which computes and keeps no source; nil: nothing is due, or
    /// nobody watches.
    ///
    /// What may be the last of it by now, and the user's, goes into `spent`, to be let go of once no lock is held.
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

    /// Takes what the value follows from for the cut of another view.
    @inlinable
    func capture(in cut: FluxCut) -> @Sendable () -> Value {
        if cut.isShared {
            let once = cut.reading(of: self) { FluxOnce(capture(cut)) }
            return { once.value }
        }
        // No store was read in the cut before, so what is known may stand for reading them now.
        let known = inner.state
        if known.stamp == sources.stamp() { return { known.value } }
        // What is known may be the last of it by now, and is let go of once no lock is held.
        let compute = capture(cut)
        return { withExtendedLifetime(known) { compute() } }
    }

    // MARK: - Watching

    /// Tells one who skips whether what he was handed last is as good as what is announced now.
    ///
    /// Not as the value now: by a tolerance that may be as good as two which are not as good as each other.
    @inlinable var distinct: FluxDistinct<FluxDerived<Value>> {
        FluxDistinct(by: { [isSame] in isSame($0.value, $1.announced) })
    }

    /// Computes at each change of a source for as long as a subscription lasts.
    func following(_ join: () -> FluxSubscription) -> FluxSubscription {
        let isFirst = watchers.withLock { watchers in
            watchers.users += 1
            return watchers.users == 1
        }
        if isFirst {
            // It computes once for all changes that come before it does. Who joins meanwhile is told by what follows here.
            let alarm = FluxViewAlarm(on: queue) { [reach] in reach.bringUp() }
            let token = sources.watch { alarm.ring() }
            watchers.withLock { $0.token = token }
        }
        upToDate()
        let feed = FluxFeed()
        feed.stops { [weak self] in self?.leave() }
        return FluxSubscription([join(), feed.token])
    }

    /// A subscription has ended; with the last, the view is told of no change and computes only when it is read.
    private func leave() {
        let token = watchers.withLock { watchers in
            watchers.users -= 1
            return watchers.users == 0 ? Swift.exchange(&watchers.token, with: nil) : nil
        }
        token?.unsubscribe()
    }

    /// Reads what is due and has it computed, and is reached by nobody from here on: the view was let go.
    ///
    /// Elsewhere, for computing is the user's, and the last reference may go under a lock. Then the store goes that ends the
    /// subscriptions.
    @usableFromInline
    func end() {
        var spent: [Any] = []
        let due = cut(&spent)
        reach.core.withLock { $0 = nil }
        if let due { queue.async(execute: due) }
    }
}

/// Leads to what a view is made of for as long as there is the view, and keeps that for no longer: whoever uses it has the lock.
@usableFromInline
nonisolated final class FluxViewReach<Value: Sendable>: Sendable {
    @usableFromInline let core = FluxLock<FluxViewCore<Value>?>(nil)

    @usableFromInline init() {}

    /// Brings the value up to the sources, where there are any left.
    func bringUp() {
        var spent: [Any] = []
        // Paused though there is nothing to pause: what goes under this lock may be the last to keep the view.
        let compute = core.withLock { core in FluxDispatcher.paused([]) { core?.cut(&spent) } }
        withExtendedLifetime(spent) { compute?() }
    }
}

nonisolated extension FluxStore {
    /// Puts a value of a view in the place of an older one, and announces it if it is another; returns the newest.
    @inlinable
    func replace<Value>(
        _ old: FluxDerived<Value>, with next: FluxDerived<Value>, by isSame: (Value, Value) -> Bool
    ) -> FluxDerived<Value> where State == FluxDerived<Value> {
        var known = old
        while known.cut < next.cut {
            // Compared with no lock held; where another thread was faster, compared again.
            let action = FluxDerived.Action(next: next, known: known.cut, isSame: isSame(known.announced, next.value))
            if dispatch(action: action) != nil { return next }
            known = state
        }
        return known
    }
}
