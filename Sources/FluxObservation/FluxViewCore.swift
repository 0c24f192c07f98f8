import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// What a view follows from.
@usableFromInline
nonisolated final class FluxViewParts<Value: Sendable>: Sendable {
    private let sources: [any FluxSource]
    @usableFromInline let stores: [FluxStoreInfo]
    /// Whether two values are as good as equal.
    @usableFromInline let isSame: @Sendable (Value, Value) -> Bool
    /// Whether a store is read more than once in a cut.
    private let isShared: Bool
    /// A closure made where the types of the sources are known: that keeps reading them cheap.
    @usableFromInline let capture: @Sendable (FluxCut) -> @Sendable () -> Value
    /// The number of the last cut, held while a cut is taken: of two that read the stores at the same time, neither would
    /// be the later one in all of them.
    private let cuts = FluxLock<UInt64>(0)

    @usableFromInline
    init(
        _ sources: [any FluxSource], by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ capture: @escaping @Sendable (FluxCut) -> @Sendable () -> Value
    ) {
        (self.sources, self.isSame, self.capture) = (sources, isSame, capture)
        stores = sources.flatMap { $0.stores }
        isShared = Set(stores).count < stores.count
    }

    /// The sum of the stamps of all stores.
    @usableFromInline var stamp: UInt64 { sources.reduce(0) { $0 &+ $1.stamp } }

    func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        FluxSubscription(sources.map { $0.watch(ended: {}, changed) })
    }

    /// Takes what the value follows from, at a moment between two actions; the stamp is not newer than that.
    @usableFromInline
    func cut() -> (number: UInt64, stamp: UInt64, compute: @Sendable () -> Value) {
        while true {
            let dispatchers = dispatchers
            let taken = cuts.withLock { number in
                number += 1
                return FluxDispatcher.paused(dispatchers) { [number] in
                    (number: number, stamp: stamp, compute: capture(FluxCut(isShared: isShared)))
                }
            }
            // A store may have moved before its dispatcher was stopped.
            if dispatchers.elementsEqual(self.dispatchers, by: { $0 === $1 }) { return taken }
        }
    }

    /// The dispatchers of the stores at this moment; neighbours of one dispatcher count once.
    private var dispatchers: [FluxDispatcher] {
        var found: [FluxDispatcher] = []
        for store in stores {
            if let dispatcher = store.dispatcher, found.last !== dispatcher { found.append(dispatcher) }
        }
        return found
    }
}

/// The part of a view that lives as long as anything is due; its handle, ``FluxView``, may go before.
///
/// It holds the last value in a store of its own, so that it is watched in all the ways a store is.
@usableFromInline
nonisolated final class FluxViewCore<Value: Sendable>: Sendable {
    private struct Watchers {
        /// How many subscriptions to the view there are.
        var users = 0
        /// What tells of changes while there are any.
        var token: FluxSubscription?
    }

    @usableFromInline let inner: FluxStore<FluxDerived<Value>>
    @usableFromInline let parts: FluxViewParts<Value>
    private let watchers = FluxLock(Watchers())
    /// Where the view computes for those who watch it.
    private let queue = DispatchQueue(label: "FluxView", autoreleaseFrequency: .workItem, target: .global())

    @inlinable
    init(_ parts: FluxViewParts<Value>) {
        self.parts = parts
        let first = parts.cut()
        inner = FluxStore(
            initialState: FluxDerived(value: first.compute(), stamp: first.stamp, cut: first.number), dispatcher: nil)
    }

    // MARK: - Computing

    /// The value, computed anew only if a change was applied since it was computed last.
    ///
    /// Stamps only grow. So if their sum is that of the known value, no store has changed since, and the value is that of a
    /// moment in this call: no dispatcher has to be stopped.
    @inlinable
    func upToDate() -> FluxDerived<Value> {
        FluxPureCode.forbid("a view")
        let known = inner.state
        return known.stamp == parts.stamp ? known : refresh()
    }

    /// Brings the value up to the sources, and announces it if it is another.
    @inlinable @inline(never) @discardableResult
    func refresh() -> FluxDerived<Value> {
        let cut = parts.cut()
        var known = inner.state
        if known.cut >= cut.number || known.stamp == cut.stamp { return known }
        let value = cut.compute()
        while known.cut < cut.number {
            // Compared with no lock held; where another thread was faster, compared again.
            inner.dispatch(
                action: FluxDerived.Action(
                    next: FluxDerived(value: value, stamp: cut.stamp, cut: cut.number), known: known.cut,
                    isSame: parts.isSame(known.value, value)))
            known = inner.state
        }
        return known
    }

    /// Takes what the value follows from for the cut of another view.
    @inlinable
    func capture(in cut: FluxCut) -> @Sendable () -> Value {
        if !cut.isShared {
            // No store was read in the cut before, so what is known may stand for reading them now.
            let known = inner.state
            if known.stamp == parts.stamp { return { known.value } }
        }
        return parts.capture(cut)
    }

    // MARK: - Watching

    /// Computes at each change of a source for as long as a subscription lasts.
    func following(_ join: () -> FluxSubscription) -> FluxSubscription {
        watchers.withLock { watchers in
            watchers.users += 1
            if watchers.users > 1 { return }
            // It computes once for all changes that come before it does.
            let alarm = FluxQueueDelivery<Void>(on: queue, bound: .latest) { [weak self] in _ = self?.refresh() }
            watchers.token = FluxSubscription([parts.watch { alarm.put(()) }, alarm.token])
        }
        refresh()
        let feed = FluxFeed()
        feed.stops { [weak self] in self?.leave() }
        return FluxSubscription([join(), feed.token])
    }

    /// A subscription has ended; with the last, the view is told of no change and computes only when it is read.
    private func leave() {
        var token: FluxSubscription?
        watchers.withLock { watchers in
            watchers.users -= 1
            if watchers.users == 0 { swap(&watchers.token, &token) }
        }
        token?.unsubscribe()
    }

    /// Computes what is due, and lets go of the rest: the view was let go.
    ///
    /// Elsewhere, for computing is the user's, and the last reference may go under a lock. Then this goes, and with it the
    /// store that ends the subscriptions.
    @usableFromInline
    func end() {
        if watchers.withLock({ $0.users > 0 }) { queue.async { self.refresh() } }
    }
}
