import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// Reports that a store begins to apply an action and, once the store's lock is free, that it was applied.
///
/// `applying` and `applied` are visible to the client's module, which specialises them. Otherwise each action would
/// cost five times as much. The observer is also what is settled, because creating an object for that costs as much as
/// everything else. While it is taken by an action that has not been reported yet, a new one is used.
@usableFromInline
nonisolated final class FluxStoreInstrument<State: FluxState>: FluxStoreObserver, FluxEventInstrument, FluxSettling {
    @usableFromInline let instrumentation: any FluxInstrumentation
    /// The store, whose lock is held in `begin` and `end`.
    ///
    /// Its observers hold this object: a cycle that the end of the store breaks.
    private let store: FluxStoreInfo
    /// When the current action began; used only while the store's lock is held.
    private let start = Synchronization.Atomic<UInt64>(0)
    private let isTaken = Synchronization.Atomic<Bool>(false)
    /// Safe: it belongs to the thread that took this object, holding the store's lock, until that thread settles it.
    @exclusivity(unchecked) private nonisolated(unsafe) var action: any FluxAction = FluxNoAction()
    /// 0 if nothing was announced.
    @exclusivity(unchecked) private nonisolated(unsafe) var revision: UInt64 = 0
    @exclusivity(unchecked) private nonisolated(unsafe) var duration: UInt64 = 0

    @usableFromInline init(_ store: FluxStoreInfo, _ instrumentation: any FluxInstrumentation) {
        (self.store, self.instrumentation) = (store, instrumentation)
    }

    @inlinable func applying(_ change: FluxChange<State>) {
        // A state that replaces another is not reported, whichever way it came in.
        if case .replaced = change { return }
        begin(change.action)
    }

    @inlinable func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        if case .replaced = change { return nil }
        return end(change.action, revision)
    }

    @usableFromInline func begin(_ action: any FluxAction) {
        FluxPureCode.run("FluxInstrumentation.dispatched of a store") {
            instrumentation.dispatched(action, origin: FluxOrigin.current)
        }
        // Relaxed: the lock of the store orders it.
        start.store(fluxNow(), ordering: .relaxed)
    }

    @usableFromInline func end(_ action: any FluxAction, _ revision: UInt64?) -> (any FluxSettling)? {
        let start = start.load(ordering: .relaxed)
        // Acquiring: the thread that settled it last has read the fields that are written here. Taking it needs only
        // the store's lock.
        let taken = isTaken.load(ordering: .acquiring) ? FluxStoreInstrument(store, instrumentation) : self
        taken.isTaken.store(true, ordering: .relaxed)
        (taken.action, taken.revision, taken.duration) = (action, revision ?? 0, fluxNow() &- start)
        return taken
    }

    @usableFromInline func settle() {
        let (action, revision, duration) = (action, revision, duration)
        self.action = FluxNoAction()
        // Freed before the report, because the report may lead to the next action.
        isTaken.store(false, ordering: .releasing)
        instrumentation.applied(
            action, to: store, revision: revision == 0 ? nil : revision, in: .nanoseconds(Int64(duration)))
    }
}

/// The placeholder for no action; taking out an optional action would cost 100 more instructions.
nonisolated private struct FluxNoAction: FluxAction {}

/// Returns the time in nanoseconds since an arbitrary moment; the clocks of the standard library take twice as long.
nonisolated func fluxNow() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
}
