import FluxCore
import FluxDiagnostics
import FluxRouting

/// An action that concerns many stores, and is no state's own.
struct LogOut: FluxAction {
    var reason = ""
}

/// Middleware that is an object, to be removed by instance.
final class Spy: FluxMiddleware {
    let seen = Recorder<String>()
    let name: String

    init(_ name: String = "") {
        self.name = name
    }

    func handle(action: any FluxAction, next: FluxNext) {
        seen.record("\(name)\(action)")
        next(action)
    }
}

/// Keeps what it was told.
final class Watcher: FluxInstrumentation {
    enum Note: Equatable {
        case fired(FluxOrigin)
        case dispatched(FluxOrigin?)
        case applied(revision: UInt64?)
    }

    let notes = Recorder<Note>()
    let stores = Recorder<FluxStoreInfo>()

    func fired(_ event: any FluxEvent, origin: FluxOrigin) { notes.record(.fired(origin)) }
    func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { notes.record(.dispatched(origin)) }
    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
        stores.record(store)
        notes.record(.applied(revision: duration > .zero ? revision : 0))
    }
}

extension FluxDispatcher {
    /// Dispatches an action of the counter and its log.
    @discardableResult
    func add(_ amount: Int) -> Int { dispatch(action: Counter.Action.add(amount)) }
}
