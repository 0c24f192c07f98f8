import FluxCore
import TestSupport

/// Holds back the changes of a store, as a store does while it loads its state.
final class HeldBack<State: FluxState>: Sendable {
    private let handle: FluxStoreHandle<State>
    private let held = Locked<[FluxChange<State>]>([])

    init(_ store: FluxStore<State>) {
        handle = store.handle
        handle.withAccess { $0.hold(by: admit) }
    }

    func admit(_ change: FluxChange<State>) -> Bool {
        held.withLock { $0.append(change) }
        return false
    }

    /// Replaces the state if one is given, and then applies the changes that were held back.
    func letGo(loading state: State? = nil) {
        handle.withAccess { access in
            access.hold(by: nil)
            if let state { access.replace(with: state, by: Loaded()) }
            for change in held.withLock({ $0 }) { access.apply(change, pastGate: true) }
        }
        held.withLock { $0 = [] }
    }

    private struct Loaded: FluxAction {}
}

/// Records the actions of a store, described, and its events.
final class Actions<State: FluxState>: FluxStoreObserver {
    let seen = Recorder<String>()
    let events = Recorder<any FluxEvent>()

    init(_ store: FluxStore<State>) {
        store.handle.withAccess { $0.observe(self) }
    }

    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        seen.record("\(change.action)")
        return nil
    }

    func fired(_ event: any FluxEvent, _ task: FluxTask) {
        events.record(event)
    }
}
