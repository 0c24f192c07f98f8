#if canImport(FluxCore)
    import FluxCore
#endif

/// A change that a store announced, with the state after the action.
///
/// Thread safety: a value.
nonisolated public struct FluxStoreChange: Sendable {
    /// The store.
    public let store: FluxStoreInfo
    /// The revision of the change.
    public let revision: UInt64
    /// The state after the action.
    public let state: any FluxState
}

nonisolated extension Swift.Sequence<FluxStoreChange> {
    /// Returns the state of a store after the last of these changes to it, or nil if none of them belongs to the store.
    ///
    /// - Parameter store: The store.
    /// - Returns: The state after the action.
    public func state<State>(of store: FluxStore<State>) -> State? {
        filter { $0.store.isOf(store) }.last.flatMap { $0.state as? State }
    }
}

nonisolated extension FluxNext {
    /// Passes an action on as a plain call does, and reports the announced changes, each with the resulting state.
    ///
    /// Later changes by other threads are not reported, and neither are those of an action that a later interceptor
    /// postponed. Each changed state is copied, so use this only where the report is needed.
    ///
    /// - Parameters:
    ///   - action: The current action, or any other in its place.
    ///   - body: Receives the store, the revision and the state of each change, in the order made, before this call
    ///     returns.
    /// - Returns: The number of changes that the stores announced.
    /// - Complexity: O(*m* + *n*) for *m* later interceptors and *n* stores.
    @discardableResult public func callAsFunction(
        _ action: any FluxAction, _ body: (_ store: FluxStoreInfo, _ revision: UInt64, _ state: any FluxState) -> Void
    ) -> Int {
        // Nil once the changes are reported: those of a postponed action come too late.
        let changes = FluxLock<[(store: FluxStoreInfo, revision: UInt64, state: any FluxState)]?>([])
        let next = telling { store, revision, state in
            if let revision { changes.withLock { $0?.append((store, revision, state())) } }
        }
        let announced = next(action)
        let told = changes.withLock { Swift.exchange(&$0, with: nil) } ?? []
        for change in told { body(change.store, change.revision, change.state) }
        return announced
    }

    /// Passes an action on as a plain call does, and returns the announced changes, each with the resulting state.
    ///
    /// Later changes by other threads are not included, and neither are those of an action that later middleware
    /// postponed. Each changed state is copied, so use this only where the answer is needed.
    ///
    /// - Parameter action: The current action, or any other in its place.
    /// - Returns: The announced changes, in the order made, including those of actions that later middleware sent in
    ///   its place.
    /// - Complexity: O(*m* + *n*) for *m* later middleware and *n* stores.
    public func changes(by action: any FluxAction) -> [FluxStoreChange] {
        var changes: [FluxStoreChange] = []
        self(action) { changes.append(FluxStoreChange(store: $0, revision: $1, state: $2)) }
        return changes
    }
}
