import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// The part of a view that lives as long as anything is due; its handle, ``FluxView``, may go before.
///
/// It holds the last value in a store of its own, so that it is watched in all the ways a store is.
@usableFromInline
nonisolated final class FluxViewCore<Value: Sendable>: Sendable {
    private struct Watchers {
        /// How many subscriptions to the view there are.
        var users = 0
        /// Which time it is that there are any.
        var turn = 0
        var tokens: [FluxSubscription] = []
    }

    @usableFromInline let inner: FluxStore<FluxDerived<Value>>
    @usableFromInline let isSame: @Sendable (Value, Value) -> Bool
    @usableFromInline let parts: FluxViewParts<Value>
    /// The number of the last cut, held while a cut is taken: of two that read the stores at the same time, neither would
    /// be the later one in all of them.
    @usableFromInline let cuts: FluxLock<UInt64>
    private let watchers = FluxLock(Watchers())
    /// Where the view computes for those who watch it.
    private let queue = DispatchQueue(label: "FluxView", autoreleaseFrequency: .workItem, target: .global())

    @inlinable
    init(_ parts: FluxViewParts<Value>, isSame: @escaping @Sendable (Value, Value) -> Bool) {
        (self.parts, self.isSame) = (parts, isSame)
        cuts = FluxLock(0)
        let first = Self.cut(parts, cuts)
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
        return known.stamp == parts.stamp() ? known : refresh()
    }

    /// Brings the value up to the sources, and announces it if it is another.
    @inlinable @inline(never) @discardableResult
    func refresh() -> FluxDerived<Value> {
        let cut = Self.cut(parts, cuts)
        var known = inner.state
        if known.cut >= cut.number || known.stamp == cut.stamp { return known }
        let value = cut.compute()
        while known.cut < cut.number {
            // Compared with no lock held; where another thread was faster, compared again.
            inner.dispatch(
                action: FluxDerived.Action(
                    next: FluxDerived(value: value, stamp: cut.stamp, cut: cut.number), known: known.cut,
                    isSame: isSame(known.value, value)))
            known = inner.state
        }
        return known
    }

    /// Takes what the value follows from, at a moment between two actions; the stamp is not newer than that.
    @inlinable
    static func cut(
        _ parts: FluxViewParts<Value>, _ cuts: borrowing FluxLock<UInt64>
    ) -> (number: UInt64, stamp: UInt64, compute: @Sendable () -> Value) {
        while true {
            let dispatchers = parts.dispatchers()
            let taken = cuts.withLock { number in
                number += 1
                return FluxDispatcher.paused(dispatchers) { [number] in
                    (number: number, stamp: parts.stamp(), compute: parts.capture(FluxCut(isShared: parts.isShared)))
                }
            }
            // A store may have moved before its dispatcher was stopped.
            if dispatchers.elementsEqual(parts.dispatchers(), by: { $0 === $1 }) { return taken }
        }
    }

    /// Takes what the value follows from for the cut of another view.
    @inlinable
    func capture(in cut: FluxCut) -> @Sendable () -> Value {
        if !cut.isShared {
            // No store was read in the cut before, so what is known may stand for reading them now.
            let known = inner.state
            if known.stamp == parts.stamp() { return { known.value } }
        }
        return parts.capture(cut)
    }

    // MARK: - Watching

    @usableFromInline
    func subscribe(_ join: (FluxStore<FluxDerived<Value>>) -> FluxSubscription) -> FluxSubscription {
        startWatching()
        refresh()
        return FluxSubscription(FluxViewUse(join(inner)) { [weak self] in self?.stopWatching() })
    }

    /// Has the sources tell of changes, from the first subscriber on.
    private func startWatching() {
        let turn = watchers.withLock { watchers -> Int? in
            watchers.users += 1
            if watchers.users > 1 { return nil }
            watchers.turn += 1
            return watchers.turn
        }
        guard let turn else { return }
        let alarm = FluxViewAlarm(queue) { [weak self] in
            if let self, watchers.withLock({ $0.users > 0 }) { refresh() }
        }
        let made = parts.watch { alarm.ring() }
        let isNeeded = watchers.withLock { watchers in
            if watchers.turn != turn { return false }
            watchers.tokens = made
            return true
        }
        if !isNeeded { made.forEach { $0.unsubscribe() } }
        // A change between another subscriber's start and this.
        refresh()
    }

    /// A subscription has ended; with the last, the view is told of no change and computes only when it is read.
    private func stopWatching() {
        let made = watchers.withLock { watchers -> [FluxSubscription] in
            watchers.users -= 1
            if watchers.users > 0 { return [] }
            watchers.turn += 1
            defer { watchers.tokens = [] }
            return watchers.tokens
        }
        made.forEach { $0.unsubscribe() }
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

/// Has a view compute once for all changes that come before it does.
nonisolated private final class FluxViewAlarm: FluxSettling {
    private let isDue = Synchronization.Atomic<Bool>(false)
    private let queue: DispatchQueue
    private let body: @Sendable () -> Void

    init(_ queue: DispatchQueue, _ body: @escaping @Sendable () -> Void) {
        (self.queue, self.body) = (queue, body)
    }

    /// Called under the lock of a store.
    func ring() -> (any FluxSettling)? {
        isDue.exchange(true, ordering: .acquiringAndReleasing) ? nil : self
    }

    func settle() {
        queue.async { [self] in
            isDue.store(false, ordering: .sequentiallyConsistent)
            body()
        }
    }
}

/// A subscription to a view: the view has to know of its end.
nonisolated private final class FluxViewUse: FluxCancellable {
    private let token: FluxSubscription
    private let isOver = Synchronization.Atomic<Bool>(false)
    private let tellOfEnd: @Sendable () -> Void

    init(_ token: FluxSubscription, tellOfEnd: @escaping @Sendable () -> Void) {
        (self.token, self.tellOfEnd) = (token, tellOfEnd)
    }

    func cancel() {
        token.unsubscribe()
        if !isOver.exchange(true, ordering: .acquiringAndReleasing) { tellOfEnd() }
    }

    func finish() async {
        cancel()
        await token.finish()
    }

    var dropped: Int { token.dropped }
}
