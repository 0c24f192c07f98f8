import FluxCore

/// An action that concerns many stores, and is no state's own.
struct LogOut: FluxAction {
    var reason = ""
}

extension FluxDispatcher {
    /// Dispatches an action of the counter and its log.
    @discardableResult
    func add(_ amount: Int) -> Int { dispatch(action: Counter.Action.add(amount)) }
}
