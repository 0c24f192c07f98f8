import FluxCore

extension FluxDispatcher {
    /// Detaches the stores of a type of state, as `FluxRouting` does; returns how many there were.
    @discardableResult
    func detach<State: FluxState>(_ type: State.Type) -> Int { stores.count { $0.stateType == type && detach($0) } }
}
