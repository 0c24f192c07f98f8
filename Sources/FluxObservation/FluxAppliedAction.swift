import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// An action that a store has applied.
///
/// Thread safety: a value.
nonisolated public struct FluxAppliedAction<Action: Sendable>: Sendable {
    /// The action.
    public let action: Action
    /// The revision that it led to; nil if `handle(action:)` had nothing to announce.
    public let revision: UInt64?
    /// The store that applied it.
    public let store: FluxStoreInfo

    @inlinable init(action: Action, revision: UInt64?, store: FluxStoreInfo) {
        (self.action, self.revision, self.store) = (action, revision, store)
    }
}

nonisolated extension FluxStore {
    /// Calls a handler with every action of the state's own type that this store applies from now on, after it was applied.
    ///
    /// In the order applied, each exactly once, and never twice at once. Also what the state did not announce. Of what the store
    /// reacts to, and of commands, `subscribeActions` of its dispatcher tells. A store whose actions nobody subscribed to spends
    /// nothing on this.
    ///
    /// - Parameters:
    ///   - queue: Where to call the handler; by default on a serial queue kept for this.
    ///   - handler: Gets the action with the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribeActions(
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<State.Action>) -> Void
    ) -> FluxSubscription {
        let info = FluxStoreInfo(handle)
        let delivery = FluxQueueDelivery(on: queue, handler)
        let observer = FluxReceiverObserver<State>(handle, delivery) { change, _, revision in
            guard case .action(let action) = change else { return nil }
            return delivery.put(FluxAppliedAction(action: action, revision: revision, store: info))
        }
        handle.withAccess { $0.observe(observer, settlesFirst: true) }
        return observer.token
    }

    /// Calls a handler on the main actor with every action of the state's own type that this store applies from now on, after it was applied.
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
    /// what the state did not announce. A dispatcher that nobody subscribed to spends nothing on this. However many subscribe, each
    /// store is looked on at once.
    ///
    /// - Parameters:
    ///   - queue: Where to call the handler; by default on a serial queue kept for this.
    ///   - handler: Gets the action with the store and the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) for *n* attached stores where it is the only one, at the start and at the end;
    ///   else O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
    @_disfavoredOverload
    public func subscribeActions(
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<any FluxAction>) -> Void
    ) -> FluxSubscription {
        subscribe(on: queue, handler) { $0 }
    }

    /// Calls a handler with every action of one type that any store of this dispatcher applies from now on.
    ///
    /// - Parameters:
    ///   - type: The type of the actions to be told of.
    ///   - queue: Where to call the handler; by default on a serial queue kept for this.
    ///   - handler: Gets the action with the store and the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) for *n* attached stores where it is the only one, at the start and at the end;
    ///   else O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
    @_disfavoredOverload
    public func subscribeActions<Action: FluxAction>(
        of type: Action.Type,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<Action>) -> Void
    ) -> FluxSubscription {
        subscribe(on: queue, handler) { applied in
            // Of a value the type is all: a cast would take an action out of an optional one.
            guard type is AnyClass || Swift.type(of: applied.action) == type, let action = applied.action as? Action
            else { return nil }
            return FluxAppliedAction<Action>(action: action, revision: applied.revision, store: applied.store)
        }
    }

    /// Calls a handler on the main actor with every action that any store of this dispatcher applies from now on.
    ///
    /// - Parameters:
    ///   - main: The main queue.
    ///   - handler: Gets the action with the store and the revision that it led to.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) for *n* attached stores where it is the only one, at the start and at the end;
    ///   else O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
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
    /// - Complexity: O(*n*) for *n* attached stores where it is the only one, at the start and at the end;
    ///   else O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
    public func subscribeActions<Action: FluxAction>(
        of type: Action.Type,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (FluxAppliedAction<Action>) -> Void
    ) -> FluxSubscription {
        subscribeActions(of: type, on: DispatchQueue.main, main.bind(handler))
    }

    private func subscribe<Element: Sendable>(
        on queue: DispatchQueue?, _ handler: @escaping @Sendable (Element) -> Void,
        _ take: @escaping @Sendable (FluxAppliedAction<any FluxAction>) -> Element?
    ) -> FluxSubscription {
        FluxPureCode.forbid("subscribeActions")
        let delivery = FluxQueueDelivery(on: queue, handler)
        let reader = FluxActionReaders.Reader(delivery) { applied, _ in take(applied).flatMap { delivery.put($0) } }
        return feature(FluxActionLogs.self) { FluxActionLogs() }.add(reader, on: self)
    }
}
