#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxAction {
    /// Dispatches this action on `FluxDispatcher.shared`.
    ///
    /// - Returns: The number of changes that the stores announced.
    @discardableResult public func dispatch() -> Int { FluxDispatcher.shared.dispatch(action: self) }

    /// Dispatches this action to a given receiver.
    ///
    /// - Parameter dispatcher: The dispatcher, or another receiver of actions.
    /// - Returns: The number of changes that the stores announced.
    @discardableResult public func dispatch(with dispatcher: some FluxDispatching) -> Int {
        dispatcher.dispatch(action: self)
    }
}

nonisolated extension FluxDispatcher {
    /// Detaches all stores whose state is of a given type.
    ///
    /// - Parameter type: The type of the state.
    /// - Returns: The number of stores that were detached.
    /// - Complexity: O(*n* log *n*) for *n* stores of the dispatcher.
    @discardableResult public func detach<State: FluxState>(_ type: State.Type) -> Int {
        stores.count { $0.stateType == type && detach($0) }
    }
}
