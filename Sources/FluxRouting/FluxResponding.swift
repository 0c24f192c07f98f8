#if canImport(FluxCore)
    import FluxCore
#endif

// MARK: - Who takes what

nonisolated extension FluxDispatcher {
    /// Whether an action of a type reaches any store from here: one that is attached, or one of a child.
    ///
    /// - Parameter type: The type of action.
    /// - Returns: True if it does.
    /// - Complexity: O(*m* + *n* log *n*) for *m* middleware and *n* stores, and the same per dispatcher below.
    public func responds(to type: any FluxAction.Type) -> Bool {
        FluxPureCode.forbid("responds(to:)")
        return stores.contains { $0.takes(type) } || children.contains { $0.responds(to: type) }
    }

    /// Whether an action reaches any store from here: one that is attached, or one of a child.
    ///
    /// - Parameter action: The action, of any type.
    /// - Returns: True if it does.
    /// - Complexity: O(*m* + *n* log *n*) for *m* middleware and *n* stores, and the same per dispatcher below.
    public func responds(to action: any FluxAction) -> Bool { responds(to: type(of: action)) }

    /// The stores attached here that take a type of action, in the order of priority and attachment.
    ///
    /// That is the order in which they get one, but for reactions: of one priority these are called in the order added, or in
    /// which their stores were attached where that was later.
    ///
    /// - Parameter type: The type of action.
    /// - Returns: The stores, each once.
    /// - Complexity: O(*n* log *n*) for *n* stores.
    public func stores(taking type: any FluxAction.Type) -> [FluxStoreInfo] { stores.filter { $0.takes(type) } }
}

nonisolated extension FluxStore {
    /// Whether the store takes a type of action.
    ///
    /// - Parameter type: The type of action.
    /// - Returns: True for that of its state, and those that it reacts to.
    public func responds(to type: any FluxAction.Type) -> Bool { FluxStoreInfo(handle).takes(type) }

    /// Whether the store takes an action.
    ///
    /// - Parameter action: The action, of any type.
    /// - Returns: True where it is of the type of its state, or of one that it reacts to.
    public func responds(to action: any FluxAction) -> Bool { responds(to: type(of: action)) }
}
