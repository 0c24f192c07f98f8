import Dispatch
import Synchronization

/// The value of a view and what it was computed from, as the state of a store of its own.
@usableFromInline
nonisolated struct FluxDerived<Value: Sendable>: FluxState {
    @usableFromInline
    struct Action: FluxAction {
        @usableFromInline let next: FluxDerived
        /// The stamp of the value that the next one was compared with.
        @usableFromInline let known: UInt64
        @usableFromInline let isSame: Bool

        @inlinable
        init(next: FluxDerived, known: UInt64, isSame: Bool) {
            self.next = next
            self.known = known
            self.isSame = isSame
        }
    }

    @usableFromInline let value: Value
    /// The sum of the revisions of all stores it follows from: these only grow, so it differs if one of them does.
    @usableFromInline let stamp: UInt64

    @inlinable
    init(value: Value, stamp: UInt64) {
        self.value = value
        self.stamp = stamp
    }

    @inlinable
    mutating func handle(action: Action) -> FluxDerived? {
        guard action.known == stamp, action.next.stamp > stamp else { return nil }
        self = FluxDerived(value: action.isSame ? value : action.next.value, stamp: action.next.stamp)
        return action.isSame ? nil : self
    }
}

/// The part of a view that lives as long as anything is due; its handle, ``FluxView``, may go before.
///
/// It holds the last value in a core like that of a store, so that it is watched in all the ways a store is.
@usableFromInline
nonisolated final class FluxViewCore<Value: Sendable>: FluxFeeding {
    private struct Watchers {
        /// How many subscriptions to the view there are.
        var users = 0
        /// Which time it is that there are any.
        var turn = 0
        var isEnded = false
        var all: [any FluxCancellable] = []
    }

    @usableFromInline let inner: FluxStoreCore<FluxDerived<Value>>
    @usableFromInline let isSame: @Sendable (Value, Value) -> Bool
    @usableFromInline let parts: FluxViewParts<Value>
    private let watchers = FluxLock(Watchers())
    /// Where the view is told of changes and computes.
    private let queue = DispatchQueue(label: "FluxView", autoreleaseFrequency: .workItem, target: .global())

    /// - Parameters:
    ///   - parts: What the value follows from.
    ///   - inner: What holds the value; made where the client's types are known.
    ///   - isSame: Whether two values are as good as equal.
    @usableFromInline
    init(
        _ parts: FluxViewParts<Value>, inner: FluxStoreCore<FluxDerived<Value>>,
        isSame: @escaping @Sendable (Value, Value) -> Bool
    ) {
        self.parts = parts
        self.inner = inner
        self.isSame = isSame
    }

    // MARK: - Computing

    /// The value, computed anew only if a change was announced since it was computed last.
    ///
    /// Revisions only grow and the known value is looked up first. So if their sum is the same, none has changed since
    /// the cut that the value is from, and the value is that of a moment in this call: no dispatcher has to be stopped.
    @inlinable
    func upToDate() -> FluxDerived<Value> {
        if inner.threads.current.pointee.handling != nil { fluxStopImpureHandle("a view") }
        let known = inner.read { $0.state }
        return known.stamp == parts.stamp() ? known : refresh()
    }

    /// Brings the value up to the sources, and announces it if it is another.
    @inlinable @inline(never) @discardableResult
    func refresh() -> FluxDerived<Value> {
        let capture = parts.cut()
        var known = inner.read { $0.state }
        if known.stamp >= capture.stamp { return known }
        let value = capture.state
        while known.stamp < capture.stamp {
            // Compared with no lock held; where another thread was faster, compared again.
            let action = FluxDerived<Value>.Action(
                next: FluxDerived(value: value, stamp: capture.stamp), known: known.stamp,
                isSame: isSame(known.value, value))
            let applied = inner.apply(action, on: inner.threads.current)
            applied.wakes.forEach { $0.wake() }
            known = inner.read { $0.state }
        }
        return known
    }

    // MARK: - As a source

    @usableFromInline
    func enroll(_ wish: FluxWish, handler: @escaping @Sendable (Value) -> Void) -> any FluxCancellable {
        startWatching()
        refresh()
        return FluxViewUse(inner.enroll(wish) { handler($0.value) }) { [weak self] in self?.stopWatching() }
    }

    @usableFromInline
    func read(into state: UnsafeMutablePointer<Value>, _ stamp: UnsafeMutablePointer<UInt64>) {
        _ = upToDate()
        state.initialize(to: inner.state(&stamp.pointee).value)
    }

    @usableFromInline var stamp: UInt64 { parts.stamp() }

    @usableFromInline var difference: (@Sendable (Value, Value) -> Bool)? { isSame }

    @usableFromInline var isStore: Bool { false }

    @usableFromInline var stores: ContiguousArray<ObjectIdentifier> { parts.stores }

    @usableFromInline
    func capture(in cut: FluxCut?) -> FluxCapture<Value> {
        let capture = parts.capture(cut)
        return FluxCapture(
            stamp: capture.stamp,
            .computed { [inner] in
                let known = inner.read { $0.state }
                return known.stamp == capture.stamp ? known.value : capture.state
            })
    }

    @usableFromInline
    func keep(_ leash: FluxLeash) {
        inner.keep(leash)
    }

    @usableFromInline var relay: DispatchQueue { inner.relay }

    @usableFromInline
    func flush() async {
        refresh()
        await inner.flush()
    }

    // MARK: - Watching

    /// Has the sources tell of changes, from the first subscriber on.
    private func startWatching() {
        let turn = watchers.withLock { watchers -> Int? in
            watchers.users += 1
            if watchers.users > 1 { return nil }
            watchers.turn += 1
            return watchers.turn
        }
        guard let turn else { return }
        let made = parts.watch(FluxWish(.latest, on: queue, startingWithCurrent: false)) { [weak self] in
            self?.refresh()
        }
        let isNeeded = watchers.withLock { watchers in
            if watchers.isEnded || watchers.turn != turn { return false }
            watchers.all = made
            return true
        }
        if !isNeeded { made.forEach { $0.cancel() } }
        // A change between another subscriber's start and this.
        refresh()
    }

    /// A subscription has ended; with the last, the view is told of no change and computes only when it is read.
    private func stopWatching() {
        let made = watchers.withLock { watchers -> [any FluxCancellable] in
            watchers.users -= 1
            if watchers.users > 0 { return [] }
            watchers.turn += 1
            defer { watchers.all = [] }
            return watchers.all
        }
        // Elsewhere: it may wait for a source that is telling of a change at this moment.
        if !made.isEmpty { queue.async { made.forEach { $0.cancel() } } }
    }

    /// Delivers what is due and ends all subscriptions.
    @usableFromInline
    func end() {
        let made = watchers.withLock { watchers in
            watchers.isEnded = true
            defer { watchers.all = [] }
            return watchers.all
        }
        // Elsewhere: computing is the user's, and the last reference may go under a lock.
        queue.async { [self] in
            made.forEach { $0.cancel() }
            refresh()
            inner.work(inner, .end)
        }
    }
}

/// A subscription to a view: the view has to know of its end.
nonisolated private final class FluxViewUse: FluxCancellable {
    private let subscriber: any FluxCancellable
    private let isOver = Synchronization.Atomic<Bool>(false)
    private let tellOfEnd: @Sendable () -> Void

    init(_ subscriber: any FluxCancellable, tellOfEnd: @escaping @Sendable () -> Void) {
        self.subscriber = subscriber
        self.tellOfEnd = tellOfEnd
    }

    func end(_ unsettled: inout ContiguousArray<any FluxUnsettled>) {
        subscriber.end(&unsettled)
        if !isOver.exchange(true, ordering: .acquiringAndReleasing) { tellOfEnd() }
    }
}
