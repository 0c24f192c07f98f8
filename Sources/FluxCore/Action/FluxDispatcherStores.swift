/// An observer that is notified when stores are attached to a dispatcher or detached from it.
///
/// Thread safety: called on any thread, while the dispatcher's lock is held. An observer may use the store's handle,
/// for example to read the state or to add an observer of the store, but must not ask where the store is attached or
/// which actions it accepts. It must not change the state, because the store's observers would be settled while the
/// lock is held. It must not use a dispatcher or another store, or release a dispatcher, another store or a view.
/// Otherwise the program stops or waits forever, depending on the system's locks.
nonisolated public protocol FluxDispatcherObserver: AnyObject, Sendable {
    /// Reports a store that was attached, or that was already attached when the observer was added.
    ///
    /// - Parameter handle: The handle of the store.
    func attached<State>(_ handle: FluxStoreHandle<State>)

    /// Reports a store that was detached, moved to another dispatcher or released.
    ///
    /// If the store was released, this call comes before `ending` of the store's observers. An observer that is removed
    /// receives this call for each attached store. The release of the dispatcher itself is not reported.
    ///
    /// - Parameter handle: The handle of the store.
    func detached<State>(_ handle: FluxStoreHandle<State>)
}

nonisolated extension FluxDispatcher {
    // MARK: - Stores

    /// Attaches a store, or moves it here from its present dispatcher.
    ///
    /// A store that is already attached here moves to the end of its priority. An action that is dispatched
    /// while a store moves reaches the store, whichever of the two dispatchers it is dispatched on, unless one
    /// is a child of the other.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - priority: Stores with a higher priority receive an action first, so stores that depend on them find them
    ///     updated. Among equals, the store attached first comes first. A store that was never attached by hand has
    ///     priority 0. Values are limited to the range from -524,287 to 524,287.
    /// - Complexity: O(1), amortised, or O(*n*) if *n* stores have a lower priority: for the store and for each of its
    ///   reactions. Besides, O(*o*) for *o* observers of the dispatcher.
    public func attach<State>(_ store: FluxStore<State>, priority: Int = 0) {
        store.handle.attach(to: self, keeping: nil, priority: priority)
    }

    /// Attaches a store and keeps it alive for as long as it is attached here.
    ///
    /// The store does not keep the dispatcher alive in turn. It stays kept if it is attached here again
    /// without `keeping`, for example to change its priority or to give it a name.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - priority: Stores with a higher priority receive an action first.
    /// - Complexity: O(1), amortised, or O(*n*) if *n* stores have a lower priority: for the store and for each of its
    ///   reactions. Besides, O(*o*) for *o* observers of the dispatcher.
    public func attach<State>(keeping store: FluxStore<State>, priority: Int = 0) {
        store.handle.attach(to: self, keeping: store, priority: priority)
    }

    /// Detaches a store; from then on it receives only the actions that are dispatched to the store itself.
    ///
    /// - Parameter store: The store.
    /// - Returns: Whether it was attached here.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised, and the same for each of its reactions.
    ///   Besides, O(*o*) for *o* observers of the dispatcher.
    @discardableResult public func detach<State>(_ store: FluxStore<State>) -> Bool { store.handle.detach(from: self) }

    /// Detaches a store that is given by its ``FluxStoreInfo``.
    ///
    /// - Parameter store: The store.
    /// - Returns: Whether it was attached here.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised, and the same for each of its reactions.
    ///   Besides, O(*o*) for *o* observers of the dispatcher.
    @discardableResult public func detach(_ store: FluxStoreInfo) -> Bool { store.handle.detach(from: self) }

    /// The attached stores, in the order in which they receive an action.
    ///
    /// - Complexity: O(*n* log *n*) for *n* stores and reactions.
    public var stores: [FluxStoreInfo] {
        FluxPureCode.forbid("FluxDispatcher.stores")
        return routes.withLock { $0.stores }.map { FluxStoreInfo(any: $0) }
    }

    /// Adds an observer and atomically notifies it of the stores that are already attached.
    ///
    /// From then on the observer is notified of each store that is attached or detached.
    ///
    /// - Parameter observer: The observer to notify.
    /// - Complexity: O(*n* log *n*) for *n* stores and reactions.
    public func observe(_ observer: some FluxDispatcherObserver) {
        FluxPureCode.forbid("observe")
        routes.withLock { routes in
            for store in routes.stores { store.tell(observer, isAttached: true) }
            routes.observers.append(observer)
        }
    }

    /// Removes an observer and notifies it that each attached store is detached.
    ///
    /// - Parameter observer: The observer to remove. An observer that was added twice stays added once.
    /// - Complexity: O(*n* log *n*) for *n* stores and reactions.
    public func remove(_ observer: some FluxDispatcherObserver) {
        FluxPureCode.forbid("remove")
        routes.withLock { routes in
            guard let index = routes.observers.firstIndex(where: { $0 === observer }) else { return }
            routes.observers.remove(at: index)
            for store in routes.stores { store.tell(observer, isAttached: false) }
        }
    }
}
