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

    @inlinable func applying(_ change: FluxChange<State>) { teller.begin(change.action) }

    @inlinable func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        teller.end(change.action, revision)
    }
}

/// Tells, of a store of any type, when an action begins and, once the lock of the store is free, that it was applied.
@usableFromInline nonisolated final class FluxStoreTeller: Sendable {
    let instrumentation: any FluxInstrumentation
    /// It has the store's lock around all this; the store lets go of it when it ends.
    private let store: FluxStoreInfo
    /// When the action at hand began, 0 for none; it is used under the store's lock alone.
    private let start = Synchronization.Atomic<UInt64>(0)
    /// Serves again and again, for to make a note costs as much as all the rest; others are made while it is taken.
    private let note: FluxAppliedNote

    @usableFromInline init(_ store: FluxStoreInfo, _ instrumentation: any FluxInstrumentation) {
        (self.store, self.instrumentation) = (store, instrumentation)
        note = FluxAppliedNote(store, instrumentation)
    }

    @usableFromInline func begin(_ action: any FluxAction) {
        FluxPureCode.run("FluxInstrumentation.dispatched of a store") {
            instrumentation.dispatched(action, origin: FluxOrigin.current)
        }
        start.store(fluxNow(), ordering: .relaxed)
    }

    @usableFromInline func end(_ action: any FluxAction, _ revision: UInt64?) -> (any FluxSettling)? {
        // Nobody was told before of a state that was put in the place of another.
        let start = start.load(ordering: .relaxed)
        if start == 0 { return nil }
        self.start.store(0, ordering: .relaxed)
        let note = note.isTaken.load(ordering: .acquiring) ? FluxAppliedNote(store, instrumentation) : note
        note.take(FluxAppliedNote.Content(action: action, revision: revision, duration: fluxNow() &- start))
        return note
    }
}

/// Tells, once the lock of the store is free, that it has applied an action.
nonisolated private final class FluxAppliedNote: FluxSettling {
    struct Content {
        let action: any FluxAction
        let revision: UInt64?
        let duration: UInt64
    }

    private let instrumentation: any FluxInstrumentation
    private let store: FluxStoreInfo
    let isTaken = Synchronization.Atomic<Bool>(false)
    /// Safe: it belongs to who has taken the note, under the store's lock, until that thread settles it.
    private nonisolated(unsafe) var content: Content?

    init(_ store: FluxStoreInfo, _ instrumentation: any FluxInstrumentation) {
        (self.store, self.instrumentation) = (store, instrumentation)
    }

    func take(_ new: Content) {
        isTaken.store(true, ordering: .relaxed)
        content = new
    }

    func settle() {
        var taken: Content?
        swap(&taken, &content)
        // What it tells may lead to the next action.
        isTaken.store(false, ordering: .releasing)
        guard let taken else { return }
        instrumentation.applied(
            taken.action, to: store, revision: taken.revision, in: .nanoseconds(Int64(taken.duration)))
    }
}

/// A moment, in nanoseconds since some other; the clocks of the standard library take twice as long.
nonisolated func fluxNow() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
}
