import Dispatch

/// The value of a view and what it was computed from, as the state of a store of its own.
@usableFromInline
nonisolated struct FluxDerived<Value: Sendable>: FluxState {
    @usableFromInline
    struct Action: FluxAction {
        let next: FluxDerived
        /// The stamp of the value that the next one was compared with.
        let known: UInt64
        let isSame: Bool
    }

    let value: Value
    /// The sum of the revisions of all stores it follows from: these only grow, so it differs if one of them does.
    let stamp: UInt64

    @usableFromInline
    mutating func handle(action: Action) -> FluxDerived? {
        guard action.known == stamp, action.next.stamp > stamp else { return nil }
        self = FluxDerived(value: action.isSame ? value : action.next.value, stamp: action.next.stamp)
        return action.isSame ? nil : self
    }
}

/// The part of a view that lives as long as anything is due; its handle, ``FluxView``, may go before.
///
/// It holds the last value in a core like that of a store, so that it is watched in all the ways a store is.
nonisolated final class FluxViewCore<Value: Sendable>: FluxFeeding {
    typealias Watch = @Sendable (FluxWish, @escaping @Sendable () -> Void) -> [any FluxCancellable]

    private struct Watchers {
        var isWatching = false
        var isEnded = false
        var all: [any FluxCancellable] = []
    }

    private let inner: FluxStoreCore<FluxDerived<Value>>
    private let homes: @Sendable () -> [FluxDispatcher]
    private let isSame: @Sendable (Value, Value) -> Bool
    private let captureSources: @Sendable (FluxCut) -> FluxCapture<Value>
    private let watch: Watch
    private let watchers = FluxLock(Watchers())
    /// Where the view is told of changes and computes.
    private let queue = DispatchQueue(label: "FluxView", autoreleaseFrequency: .workItem, target: .global())

    init(
        dispatchers homes: @escaping @Sendable () -> [FluxDispatcher],
        isSame: @escaping @Sendable (Value, Value) -> Bool,
        capture: @escaping @Sendable (FluxCut) -> FluxCapture<Value>,
        watch: @escaping Watch
    ) {
        self.homes = homes
        self.isSame = isSame
        self.watch = watch
        captureSources = capture
        let first = Self.cut(homes(), capture)
        inner = FluxStoreCore(initialState: FluxDerived(value: first.state(), stamp: first.stamp)) { $0.perform($1) }
    }

    private static func cut(
        _ dispatchers: [FluxDispatcher], _ capture: (FluxCut) -> FluxCapture<Value>
    ) -> FluxCapture<Value> {
        if FluxThreads.shared.current.pointee.handling != nil { fluxStopImpureHandle("a view") }
        return FluxCut.take(dispatchers[...], capture)
    }

    /// Those that its stores are attached to at the moment.
    var dispatchers: [FluxDispatcher] { homes() }

    // MARK: - Computing

    /// Brings the value up to the sources, and announces it if it is another.
    func refresh() {
        let capture = Self.cut(dispatchers, captureSources)
        var known = inner.read { $0.state }
        if known.stamp >= capture.stamp { return }
        let value = capture.state()
        while known.stamp < capture.stamp {
            // Compared with no lock held; where another thread was faster, compared again.
            let action = FluxDerived<Value>.Action(
                next: FluxDerived(value: value, stamp: capture.stamp), known: known.stamp,
                isSame: isSame(known.value, value))
            let applied = inner.apply(action, on: inner.threads.current)
            applied.wakes.forEach { $0.wake() }
            known = inner.read { $0.state }
        }
    }

    // MARK: - As a source

    func enroll(_ wish: FluxWish, handler: @escaping @Sendable (Value) -> Void) -> any FluxCancellable {
        startWatching()
        refresh()
        return inner.enroll(wish) { handler($0.value) }
    }

    func stamped() -> (state: Value, stamp: UInt64) {
        refresh()
        return inner.read { ($0.state.value, $0.revision) }
    }

    func capture(in cut: FluxCut) -> FluxCapture<Value> {
        let capture = captureSources(cut)
        return FluxCapture(stamp: capture.stamp) { [inner] in
            let known = inner.read { $0.state }
            return known.stamp == capture.stamp ? known.value : capture.state()
        }
    }

    var relay: DispatchQueue { inner.relay }

    func flush() async {
        refresh()
        await inner.flush()
    }

    // MARK: - Watching

    /// Has the sources tell of changes, from the first subscriber on.
    private func startWatching() {
        let isFirst = watchers.withLock { watchers in
            if watchers.isWatching { return false }
            watchers.isWatching = true
            return true
        }
        if !isFirst { return }
        let made = watch(FluxWish(.latest, on: queue, startingWithCurrent: false)) { [weak self] in self?.refresh() }
        let isEnded = watchers.withLock { watchers in
            if !watchers.isEnded { watchers.all = made }
            return watchers.isEnded
        }
        if isEnded { made.forEach { $0.cancel() } }
        // A change between another subscriber's start and this.
        refresh()
    }

    /// Delivers what is due and ends all subscriptions.
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
