#if canImport(FluxCore)
    import FluxCore
#endif

/// A store that announced a change, and the state that the action left.
///
/// Thread safety: a value.
nonisolated public struct FluxStoreChange: Sendable {
    /// Which store.
    public let store: FluxStoreInfo
    /// The revision of the change.
    public let revision: UInt64
    /// The state as the action left it.
    public let state: any FluxState
}

nonisolated extension Swift.Sequence<FluxStoreChange> {
    /// The state of a store after the last of these changes to it; nil if none of them is.
    ///
    /// - Parameter store: Which store.
    /// - Returns: Its state as the action left it.
    public func state<State>(of store: FluxStore<State>) -> State? {
        filter { $0.store.isOf(store) }.last.flatMap { $0.state as? State }
    }
}

nonisolated extension FluxNext {
    /// Goes on as a call of it does, and tells which stores announced a change, each as the action left it.
    ///
    /// What another thread changed since is not in there; neither is what an interceptor behind postponed. It costs a copy of each
    /// changed state, so ask only where the answer is used.
    ///
    /// - Parameters:
    ///   - action: The action at hand, or any other in its place.
    ///   - body: Gets the store, the revision and the state of each change, in the order made, before this returns.
    /// - Returns: How many changes the stores announced.
    /// - Complexity: O(*m* + *n*) for *m* interceptors behind and *n* stores.
    @discardableResult public func callAsFunction(
        _ action: any FluxAction, _ body: (_ store: FluxStoreInfo, _ revision: UInt64, _ state: any FluxState) -> Void
    ) -> Int {
        // Nil once they are told of: what was postponed comes too late.
        let changes = FluxLock<[(store: FluxStoreInfo, revision: UInt64, state: any FluxState)]?>([])
        let next = telling { store, revision, state in
            if let revision { changes.withLock { $0?.append((store, revision, state())) } }
        }
        let announced = next(action)
        let told = changes.withLock { Swift.exchange(&$0, with: nil) } ?? []
        for change in told { body(change.store, change.revision, change.state) }
        return announced
    }

    /// Goes on as a call of it does, and tells which stores changed, each as the action left it.
    ///
    /// What another thread changed since is not in there. It costs a copy of each changed state, so ask only where the answer
    /// is used. What middleware behind postponed is not in the answer.
    ///
    /// - Parameter action: The action at hand, or any other in its place.
    /// - Returns: The announced changes, in the order made; those that middleware behind made in place of it among them.
    /// - Complexity: O(*m* + *n*) for *m* middleware behind and *n* stores.
    public func changes(by action: any FluxAction) -> [FluxStoreChange] {
        var changes: [FluxStoreChange] = []
        self(action) { changes.append(FluxStoreChange(store: $0, revision: $1, state: $2)) }
        return changes
    }
}
