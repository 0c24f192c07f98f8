import Dispatch
import Synchronization

/// An action that a store has applied.
///
/// Thread safety: a value.
nonisolated public struct FluxAppliedAction<Action: Sendable>: Sendable {
    /// The action.
    public let action: Action
    /// The revision that it led to; nil if `handle(action:)` had nothing to announce.
    public let revision: UInt64?
    /// The store that applied it.
    public let store: FluxStoreInfo

    /// The same with the action as a type of its own; nil if it is of another.
    func narrowed<Narrow>(to type: Narrow.Type) -> FluxAppliedAction<Narrow>? {
        (action as? Narrow).map { FluxAppliedAction<Narrow>(action: $0, revision: revision, store: store) }
    }
}

/// The state of a tap: nothing but the announcement.
nonisolated struct FluxActionLog: FluxState {
    struct Action: FluxAction {
        let applied: FluxAppliedAction<any FluxAction>
    }

    private(set) var newest: FluxAppliedAction<any FluxAction>?

    mutating func handle(action: Action) -> FluxActionLog? {
        newest = action.applied
        return self
    }
}

/// Tells its subscribers of the actions that one store, or all of a dispatcher, have applied.
///
/// It is told under the lock of the store, so in the order of the application, and wakes once that lock is free.
@usableFromInline
nonisolated final class FluxActionTap: Sendable {
    private let log = FluxStoreCore(initialState: FluxActionLog()) { $0.perform($1) }
    private let due = FluxLock<ContiguousArray<FluxOutlet<FluxActionLog>>>([])

    deinit {
        log.work(log, .end)
    }

    /// Takes an action down, with the lock of its store held.
    func record(_ action: any FluxAction, revision: UInt64?, by store: FluxStoreInfo) {
        let wakes = log.lock.withLock { machine in
            if machine.entries.isEmpty { return FluxWakes<FluxOutlet<FluxActionLog>>.none }
            let applied = FluxAppliedAction<any FluxAction>(action: action, revision: revision, store: store)
            let wakes = machine.apply(FluxActionLog.Action(applied: applied)).wakes
            // The announcement is all: the tap itself keeps no action.
            machine.state = FluxActionLog()
            return wakes
        }
        wakes.forEach { outlet in due.withLock { $0.append(outlet) } }
    }

    /// Wakes for what was taken down, by this thread or another, with no lock held.
    @usableFromInline
    func wake() {
        var outlets: ContiguousArray<FluxOutlet<FluxActionLog>> = []
        due.withLock { swap(&$0, &outlets) }
        for outlet in outlets { outlet.wake() }
    }

    func subscribe(
        on queue: DispatchQueue?, as use: FluxTapUse,
        _ handler: @escaping @Sendable (FluxAppliedAction<any FluxAction>) -> Void
    ) -> FluxSubscription {
        log.subscribe(FluxWish(.every, on: queue, startingWithCurrent: false)) { log in
            withExtendedLifetime(use) { if let applied = log.newest { handler(applied) } }
        }
    }

    func flush() async {
        await log.flush()
    }
}

nonisolated extension FluxStoreCore: FluxTapped {
    /// Has a tap told of all actions from now on.
    func add(_ tap: FluxActionTap) {
        extras.taps.withLock { taps in
            // A store that reacts to several types of action is attached once for each.
            if !taps.all.contains(where: { $0 === tap }) { taps.all.append(tap) }
            detours.fluxSet(FluxDetours.taps, of: FluxDetours.taps)
        }
    }

    /// Has a tap told of nothing from now on; without any, actions go the short way again.
    func remove(_ tap: FluxActionTap) {
        extrasIfAny?.taps.withLock { taps in
            taps.all.removeAll { $0 === tap }
            detours.fluxSet(taps.all.isEmpty ? 0 : FluxDetours.taps, of: FluxDetours.taps)
        }
    }

    /// The tap of this store alone, told of all actions while it has users.
    func useOwnTap() -> FluxActionTap {
        extras.taps.withLock { taps in
            let tap = taps.own ?? FluxActionTap()
            taps.own = tap
            taps.ownUses += 1
            if taps.ownUses == 1 { taps.all.append(tap) }
            detours.fluxSet(FluxDetours.taps, of: FluxDetours.taps)
            return tap
        }
    }

    func leaveOwnTap() {
        extrasIfAny?.taps.withLock { taps in
            taps.ownUses -= 1
            if taps.ownUses > 0 { return }
            taps.all.removeAll { $0 === taps.own }
            detours.fluxSet(taps.all.isEmpty ? 0 : FluxDetours.taps, of: FluxDetours.taps)
        }
    }

    /// Whether somebody subscribes to actions.
    @inlinable var isTapped: Bool { detours.load(ordering: .relaxed) & FluxDetours.taps != 0 }

    /// Tells the taps of an action, with the lock held.
    ///
    /// - Parameters:
    ///   - action: What was applied.
    ///   - revision: What announces it; nil if nothing does.
    ///   - told: Gets the taps, to be woken with no lock held: the store may have left them by then.
    @usableFromInline
    func tellTaps(_ action: any FluxAction, revision: UInt64?, _ told: inout ContiguousArray<FluxActionTap>) {
        guard let taps = extrasIfAny?.taps.withLock({ $0.all }) else { return }
        let store = FluxStoreInfo(core: self, stateType: State.self)
        for tap in taps {
            tap.record(action, revision: revision, by: store)
            if !told.contains(where: { $0 === tap }) { told.append(tap) }
        }
    }
}

/// Says, when the handler that has it goes, that a tap has one user less.
nonisolated final class FluxTapUse: Sendable {
    private let end: @Sendable () -> Void

    init(end: @escaping @Sendable () -> Void) {
        self.end = end
    }

    deinit {
        end()
    }
}

/// A core of any type, as a dispatcher that is tapped sees it.
nonisolated protocol FluxTapped: AnyObject {
    func add(_ tap: FluxActionTap)
    func remove(_ tap: FluxActionTap)
}
