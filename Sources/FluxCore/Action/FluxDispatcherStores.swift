/// Who is told of the stores of a dispatcher that come and go.
///
/// Thread safety: called under the lock of the dispatcher, on any thread: it may reach into the store by its handle, but for where
/// that is attached and what it takes; it uses no dispatcher and no other store, and lets go of none, nor of a view. It changes
/// nothing there, as those who look on would be settled with that lock held. To do so stops the program, or waits for good, as the
/// system's locks have it.
nonisolated public protocol FluxDispatcherObserver: AnyObject, Sendable {
    /// A store was attached, or was there when the observer came.
    ///
    /// - Parameter handle: The handle of the store.
    func attached<State>(_ handle: FluxStoreHandle<State>)

    /// A store was detached, moved away or let go of; then this comes before `ending` of those who look on at it.
    ///
    /// - Parameter handle: The handle of the store.
    func detached<State>(_ handle: FluxStoreHandle<State>)
}

nonisolated extension FluxDispatcher {
    // MARK: - Stores

    /// Attaches a store, or moves it here from where it is attached.
    ///
    /// A store that is attached here already goes to the end of its priority. An action that is dispatched while a store moves from
    /// one dispatcher to another reaches it wherever it is dispatched, unless one of the two is a child of the other.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - priority: Stores of a higher one get an action first, so that those that depend on them find them updated; among
    ///     equals the one attached first. A store that was never attached by hand has 0. What is beyond 8,388,607, either way,
    ///     counts as that.
    /// - Complexity: O(1), amortised; O(*n*) before *n* stores of a lower priority.
    public func attach<State>(_ store: FluxStore<State>, priority: Int = 0) {
        store.handle.attach(to: self, keeping: nil, priority: priority)
    }

    /// Attaches a store and keeps it alive for as long as it is attached here, though nobody else does.
    ///
    /// It does not keep the dispatcher in turn. Attached here once more without being kept, by another priority or a name, it stays
    /// kept.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - priority: Stores of a higher one get an action first.
    /// - Complexity: O(1), amortised; O(*n*) before *n* stores of a lower priority.
    public func attach<State>(keeping store: FluxStore<State>, priority: Int = 0) {
        store.handle.attach(to: self, keeping: store, priority: priority)
    }

    /// Detaches a store; from then on it gets only what is dispatched to the store itself.
    ///
    /// - Parameter store: The store.
    /// - Returns: Whether it was attached here.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised.
    @discardableResult public func detach<State>(_ store: FluxStore<State>) -> Bool { store.handle.leave(self) }

    /// Detaches a store that is known by what it is told of.
    ///
    /// - Parameter store: The store.
    /// - Returns: Whether it was attached here.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised.
    @discardableResult public func detach(_ store: FluxStoreInfo) -> Bool { store.handle.leave(self) }

    /// The stores that are attached, in the order in which they get an action.
    ///
    /// - Complexity: O(*n* log *n*) for *n* stores.
    public var stores: [FluxStoreInfo] {
        FluxPureCode.forbid("FluxDispatcher.stores")
        return routes.withLock { $0.stores }.map { FluxStoreInfo(any: $0) }
    }

    /// Tells somebody of the stores that are here, in one step, and of those that come and go from then on.
    ///
    /// - Parameter observer: Who is told.
    /// - Complexity: O(*n*) for *n* stores.
    public func observe(_ observer: some FluxDispatcherObserver) {
        FluxPureCode.forbid("observe")
        routes.withLock { routes in
            for store in routes.stores { store.tell(observer, isAttached: true) }
            routes.observers.append(observer)
        }
    }

    /// Tells somebody of nothing from now on; of each store that is here, that it is detached.
    ///
    /// - Parameter observer: Who was told; who was added twice is still told as often as once.
    /// - Complexity: O(*n*) for *n* stores.
    public func remove(_ observer: some FluxDispatcherObserver) {
        FluxPureCode.forbid("remove")
        routes.withLock { routes in
            guard let index = routes.observers.firstIndex(where: { $0 === observer }) else { return }
            routes.observers.remove(at: index)
            for store in routes.stores { store.tell(observer, isAttached: false) }
        }
    }
}
