import FluxCore
import TestSupport

/// Holds the changes of a store back, as one does that loads its state.
final class HeldBack<State: FluxState>: FluxStoreGate {
    private let handle: FluxStoreHandle<State>
    private let held = Locked<[FluxChange<State>]>([])

    init(_ store: FluxStore<State>) {
        handle = store.handle
        handle.withAccess { $0.hold(by: self) }
    }

    func admit(_ change: FluxChange<State>) -> Bool {
        held.withLock { $0.append(change) }
        return false
    }

    /// Puts a state in the place of the one that is there, and applies on it what was held back.
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

/// Keeps the actions of a store, described.
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
