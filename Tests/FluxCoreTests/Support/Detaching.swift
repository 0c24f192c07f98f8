import FluxCore

extension FluxDispatcher {
    /// Detaches the stores with a type of state, as `FluxRouting` does, and returns how many there were.
    @discardableResult
    func detach<State: FluxState>(_ type: State.Type) -> Int { stores.count { $0.stateType == type && detach($0) } }
}
