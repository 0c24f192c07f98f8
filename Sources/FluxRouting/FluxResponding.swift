#if canImport(FluxCore)
    import FluxCore
#endif

// MARK: - Which actions are taken

nonisolated extension FluxDispatcher {
    /// Returns whether an action of a given type reaches any store that is attached here or to a child.
    ///
    /// - Parameter type: The action type.
    /// - Returns: True if it does.
    /// - Complexity: O(*m* + *n* log *n*) for *m* middleware and *n* stores, and the same per dispatcher below.
    public func responds(to type: any FluxAction.Type) -> Bool {
        FluxPureCode.forbid("responds(to:)")
        var seen: FluxSeen = [:]
        return isAny(&seen) { dispatcher in dispatcher.stores.contains { $0.takes(type) } }
    }

    /// Returns whether an action reaches any store that is attached here or to a child.
    ///
    /// - Parameter action: The action, of any type.
    /// - Returns: True if it does.
    /// - Complexity: O(*m* + *n* log *n*) for *m* middleware and *n* stores, and the same per dispatcher below.
    public func responds(to action: any FluxAction) -> Bool { responds(to: type(of: action)) }

    /// Returns the stores attached here that take an action type, in the order of priority and attachment.
    ///
    /// This is also the order in which they receive an action, except for reactions. Within one priority, reactions are
    /// called in the order added, or in the order in which their stores were attached if that was later.
    ///
    /// - Parameter type: The action type.
    /// - Returns: The stores, each once.
    /// - Complexity: O(*n* log *n*) for *n* stores.
    public func stores(taking type: any FluxAction.Type) -> [FluxStoreInfo] { stores.filter { $0.takes(type) } }
}

nonisolated extension FluxStore {
    /// Returns whether the store takes an action type.
    ///
    /// - Parameter type: The action type.
    /// - Returns: True for the action type of its state, and for those that it reacts to.
    /// - Complexity: O(*r*) for *r* reactions of the store.
    public func responds(to type: any FluxAction.Type) -> Bool { FluxStoreInfo(handle).takes(type) }

    /// Returns whether the store takes an action.
    ///
    /// - Parameter action: The action, of any type.
    /// - Returns: True if the action is of its state's action type, or of a type that the store reacts to.
    public func responds(to action: any FluxAction) -> Bool { responds(to: type(of: action)) }
}
