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

/// Tells of each action that a store applies.
///
/// Open to the client's module, which specialises it, or each action would cost five times as much.
@usableFromInline nonisolated final class FluxStoreInstrument<State: FluxState>: FluxStoreObserver, FluxEventInstrument
{
    @usableFromInline let teller: FluxStoreTeller

    @inlinable init(_ handle: FluxStoreHandle<State>, _ instrumentation: any FluxInstrumentation) {
        teller = FluxStoreTeller(FluxStoreInfo(handle), instrumentation)
    }

    @usableFromInline var instrumentation: any FluxInstrumentation { teller.instrumentation }

    @inlinable func applying(_ change: FluxChange<State>) {
        // Of a state that is put in the place of another nobody is told, by either way to do that.
        if case .replaced = change { return }
        teller.begin(change.action)
    }

    @inlinable func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        if case .replaced = change { return nil }
        return teller.end(change.action, revision)
    }
}

/// Tells, of a store of any type, when an action begins and, once the lock of the store is free, that it was applied.
///
/// It serves again and again, for to make one costs as much as all the rest; while it is taken another does.
@usableFromInline nonisolated final class FluxStoreTeller: FluxSettling {
    let instrumentation: any FluxInstrumentation
    /// It has the store's lock around all this; the store lets go of it when it ends.
    private let store: FluxStoreInfo
    /// When the action at hand began; it is used under the store's lock alone.
    private let start = Synchronization.Atomic<UInt64>(0)
    private let isTaken = Synchronization.Atomic<Bool>(false)
    /// Safe: it belongs to who has taken this, under the store's lock, until that thread settles it.
    @exclusivity(unchecked) private nonisolated(unsafe) var action: any FluxAction = FluxNoAction()
    /// 0 if nothing was announced.
    @exclusivity(unchecked) private nonisolated(unsafe) var revision: UInt64 = 0
    @exclusivity(unchecked) private nonisolated(unsafe) var duration: UInt64 = 0

    @usableFromInline init(_ store: FluxStoreInfo, _ instrumentation: any FluxInstrumentation) {
        (self.store, self.instrumentation) = (store, instrumentation)
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
        // Acquiring: what settled it last has read the fields that are written here. To take it needs no more than the lock.
        let teller = isTaken.load(ordering: .acquiring) ? FluxStoreTeller(store, instrumentation) : self
        teller.isTaken.store(true, ordering: .relaxed)
        (teller.action, teller.revision, teller.duration) = (action, revision ?? 0, fluxNow() &- start)
        return teller
    }

    @usableFromInline func settle() {
        let (action, revision, duration) = (action, revision, duration)
        self.action = FluxNoAction()
        // What it tells may lead to the next action.
        isTaken.store(false, ordering: .releasing)
        instrumentation.applied(
            action, to: store, revision: revision == 0 ? nil : revision, in: .nanoseconds(Int64(duration)))
    }
}

/// Stands where no action is; an optional one would take 100 instructions more to take out.
nonisolated private struct FluxNoAction: FluxAction {}

/// A moment, in nanoseconds since some other; the clocks of the standard library take twice as long.
nonisolated func fluxNow() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
}
