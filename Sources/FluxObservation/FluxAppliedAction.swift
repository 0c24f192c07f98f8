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
    /// The revision that the action produced; nil if `handle(action:)` had nothing to announce.
    public let revision: UInt64?
    /// The store that applied it.
    public let store: FluxStoreInfo

    @inlinable init(action: Action, revision: UInt64?, store: FluxStoreInfo) {
        (self.action, self.revision, self.store) = (action, revision, store)
    }
}

nonisolated extension FluxStore {
    /// Calls a handler with every action of the state's own type, after this store has applied it, from now on.
    ///
    /// Actions are delivered in the order applied, each exactly once and never two at a time. They include actions that
    /// the state did not announce. Actions of other types that the store reacts to, and commands, are delivered by
    /// `subscribeActions` of its dispatcher. A store without subscriptions to its actions spends nothing on this.
    ///
    /// - Parameters:
    ///   - queue: The queue to call the handler on; by default a serial queue kept for this subscription.
    ///   - handler: Receives the action with the revision that it produced.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
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

    /// Calls a handler on the main actor with every action of the state's own type, after this store has applied it.
    ///
    /// - Parameters:
    ///   - main: The main queue.
    ///   - handler: Receives the action with the revision that it produced.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
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
    /// An action is delivered once for each store that applied it, in the order applied. This includes
    /// actions dispatched directly to such a store, and actions that the state did not announce. A
    /// dispatcher without subscriptions to its actions spends nothing on this. Each store is observed once,
    /// however many subscriptions there are.
    ///
    /// - Parameters:
    ///   - queue: The queue to call the handler on; by default a serial queue kept for this subscription.
    ///   - handler: Receives the action with its store and the revision that it produced.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    /// - Complexity: O(*n*) for *n* attached stores, at the start and at the end, if it is the only such subscription;
    ///   otherwise O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
    @_disfavoredOverload
    public func subscribeActions(
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<any FluxAction>) -> Void
    ) -> FluxSubscription {
        subscribeActions(on: queue, handler) { $0 }
    }

    /// Calls a handler with every action of one type that any store of this dispatcher applies from now on.
    ///
    /// - Parameters:
    ///   - type: The type of the actions to deliver.
    ///   - queue: The queue to call the handler on; by default a serial queue kept for this subscription.
    ///   - handler: Receives the action with its store and the revision that it produced.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    /// - Complexity: O(*n*) for *n* attached stores, at the start and at the end, if it is the only such subscription;
    ///   otherwise O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
    @_disfavoredOverload
    public func subscribeActions<Action: FluxAction>(
        of type: Action.Type,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (FluxAppliedAction<Action>) -> Void
    ) -> FluxSubscription {
        subscribeActions(on: queue, handler) { applied in
            // A value must have exactly this type: a cast alone would also unwrap an action that is an optional.
            guard type is AnyClass || Swift.type(of: applied.action) == type, let action = applied.action as? Action
            else { return nil }
            return FluxAppliedAction<Action>(action: action, revision: applied.revision, store: applied.store)
        }
    }

    /// Calls a handler on the main actor with every action that any store of this dispatcher applies from now on.
    ///
    /// - Parameters:
    ///   - main: The main queue.
    ///   - handler: Receives the action with its store and the revision that it produced.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    /// - Complexity: O(*n*) for *n* attached stores, at the start and at the end, if it is the only such subscription;
    ///   otherwise O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
    public func subscribeActions(
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (FluxAppliedAction<any FluxAction>) -> Void
    ) -> FluxSubscription {
        subscribeActions(on: DispatchQueue.main, main.bind(handler))
    }

    /// Calls a handler on the main actor with every action of one type that any store of this dispatcher applies.
    ///
    /// - Parameters:
    ///   - type: The type of the actions to deliver.
    ///   - main: The main queue.
    ///   - handler: Receives the action with its store and the revision that it produced.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    /// - Complexity: O(*n*) for *n* attached stores, at the start and at the end, if it is the only such subscription;
    ///   otherwise O(1) at the start, and O(*r*) for *r* such subscriptions at the end.
    public func subscribeActions<Action: FluxAction>(
        of type: Action.Type,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (FluxAppliedAction<Action>) -> Void
    ) -> FluxSubscription {
        subscribeActions(of: type, on: DispatchQueue.main, main.bind(handler))
    }

    private func subscribeActions<Element: Sendable>(
        on queue: DispatchQueue?, _ handler: @escaping @Sendable (Element) -> Void,
        _ take: @escaping @Sendable (FluxAppliedAction<any FluxAction>) -> Element?
    ) -> FluxSubscription {
        FluxPureCode.forbid("subscribeActions")
        let delivery = FluxQueueDelivery(on: queue, handler)
        let reader = FluxActionReaders.Reader(delivery) { applied, _ in take(applied).flatMap { delivery.put($0) } }
        return feature(FluxActionLogs.self) { FluxActionLogs() }.add(reader, on: self)
    }
}
