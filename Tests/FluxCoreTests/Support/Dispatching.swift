import FluxCore

/// An action that concerns many stores, and is no state's own.
struct LogOut: FluxAction {
    var reason = ""
}

extension FluxDispatcher {
    /// Dispatches an action of the counter and its log.
    @discardableResult
    func add(_ amount: Int) -> Int { dispatch(action: Counter.Action.add(amount)) }

    /// Detaches the stores of a type of state, as whoever knows the type alone would; returns how many there were.
    @discardableResult
    func detach<State: FluxState>(_ type: State.Type) -> Int { stores.count { $0.stateType == type && detach($0) } }
}
