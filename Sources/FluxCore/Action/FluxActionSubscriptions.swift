import Dispatch

nonisolated extension FluxStore {
    /// Calls a handler with every action that this store applies from now on, after it was applied.
    ///
    /// In the order applied, each exactly once, and never twice at once. Also what the state did not announce. A store
    /// whose actions nobody subscribed to spends nothing on this.
    ///
    /// - Parameters:
    ///   - queue: Where to call the handler; by default on a serial queue kept for this.
    ///   - handler: Gets the action with the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribeActions(
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<State.Action>) -> Void
    ) -> FluxSubscription {
        fluxStopInsideHandle("subscribeActions")
        let use = FluxTapUse { [weak core] in core?.leaveOwnTap() }
        return core.useOwnTap().subscribe(on: queue, as: use) { applied in
            if let applied = applied.narrowed(to: State.Action.self) { handler(applied) }
        }
    }

    /// Calls a handler on the main actor with every action that this store applies from now on, after it was applied.
    ///
    /// - Parameters:
    ///   - main: The main queue.
    ///   - handler: Gets the action with the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribeActions(
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (FluxAppliedAction<State.Action>) -> Void
    ) -> FluxSubscription {
        subscribeActions(on: DispatchQueue.main, main.bind(handler))
    }
}

nonisolated extension FluxDispatcher {
    /// Calls a handler with every action that any store of this dispatcher applies from now on, after it was applied.
    ///
    /// Once for each store that applied it, in the order applied; also what is dispatched to such a store itself, and
    /// what the state did not announce. A dispatcher that nobody subscribed to spends nothing on this.
    ///
    /// - Parameters:
    ///   - queue: Where to call the handler; by default on a serial queue kept for this.
    ///   - handler: Gets the action with the store and the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) for *n* attached stores for the first that subscribes and the last that leaves.
    @_disfavoredOverload
    public func subscribeActions(
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<any FluxAction>) -> Void
    ) -> FluxSubscription {
        fluxStopInsideHandle("subscribeActions")
        let use = FluxTapUse { [weak self] in
            // Let go of outside the lock.
            let tap = self?.routes.withLock { $0.leaveTap() }
            withExtendedLifetime(tap) {}
        }
        return routes.withLock { $0.useTap() }.subscribe(on: queue, as: use, handler)
    }

    /// Calls a handler with every action of one type that any store of this dispatcher applies from now on.
    ///
    /// - Parameters:
    ///   - type: The type of the actions to be told of.
    ///   - queue: Where to call the handler; by default on a serial queue kept for this.
    ///   - handler: Gets the action with the store and the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribeActions<Action: FluxAction>(
        of type: Action.Type,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<Action>) -> Void
    ) -> FluxSubscription {
        subscribeActions(on: queue) { applied in
            if let applied = applied.narrowed(to: Action.self) { handler(applied) }
        }
    }

    /// Calls a handler on the main actor with every action that any store of this dispatcher applies from now on.
    ///
    /// - Parameters:
    ///   - main: The main queue.
    ///   - handler: Gets the action with the store and the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) for *n* attached stores for the first that subscribes and the last that leaves.
    public func subscribeActions(
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (FluxAppliedAction<any FluxAction>) -> Void
    ) -> FluxSubscription {
        subscribeActions(on: DispatchQueue.main, main.bind(handler))
    }

    /// Calls a handler on the main actor with every action of one type that any store of this dispatcher applies.
    ///
    /// - Parameters:
    ///   - type: The type of the actions to be told of.
    ///   - main: The main queue.
    ///   - handler: Gets the action with the store and the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribeActions<Action: FluxAction>(
        of type: Action.Type,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (FluxAppliedAction<Action>) -> Void
    ) -> FluxSubscription {
        subscribeActions(of: type, on: DispatchQueue.main, main.bind(handler))
    }
}
