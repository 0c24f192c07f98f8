#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxAction {
    /// Dispatches this action on `FluxDispatcher.shared`.
    ///
    /// - Returns: How many changes the stores announced.
    @discardableResult public func dispatch() -> Int { FluxDispatcher.shared.dispatch(action: self) }

    /// Dispatches this action.
    ///
    /// - Parameter dispatcher: Where to.
    /// - Returns: How many changes the stores announced.
    @discardableResult public func dispatch(with dispatcher: some FluxDispatching) -> Int {
        dispatcher.dispatch(action: self)
    }
}

nonisolated extension FluxDispatcher {
    /// Detaches all stores of a type of state.
    ///
    /// - Parameter type: The type.
    /// - Returns: How many there were.
    /// - Complexity: O(*n* log *n*) for *n* stores of the dispatcher.
    @discardableResult public func detach<State: FluxState>(_ type: State.Type) -> Int {
        stores.count { $0.stateType == type && detach($0) }
    }
}
