import FluxCore
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

extension FluxDispatcher {
    /// Dispatches an action of the counter and its log.
    @discardableResult
    func add(_ amount: Int) -> Int { dispatch(action: Counter.Action.add(amount)) }
}
