import Synchronization

nonisolated extension FluxDispatcher {
    // MARK: - Stores

    /// Attaches a store, or moves it here from where it is attached.
    ///
    /// A store that is attached here already loses its name and goes to the end of its priority. An action that is dispatched
    /// while a store moves from one dispatcher to another reaches it wherever it is dispatched, unless one of the two works
    /// for the other.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - priority: Stores of a higher one get an action first, so that those that depend on them find them updated; among
    ///     equals the one attached first. A store that was never attached by hand has 0.
    /// - Complexity: O(1), amortised.
    @inlinable
    public func attach<State>(_ store: FluxStore<State>, priority: Int = 0) {
        try! store.resident.move(store.core, to: self, as: nil, priority: priority)
    }

    /// Attaches a store under a name, or moves it here from where it is attached.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - name: What ``dispatch(action:to:)`` finds it by, until it is detached, moved or gone.
    ///   - priority: Stores of a higher one get an action first.
    /// - Throws: ``FluxNameTaken`` if another store here has the name; then nothing has changed.
    /// - Complexity: O(1), amortised.
    @inlinable
    public func attach<State>(
        _ store: FluxStore<State>, as name: String, priority: Int = 0
    ) throws(FluxNameTaken) {
        try store.resident.move(store.core, to: self, as: name, priority: priority)
    }

    /// Detaches a store; from then on it gets only what is dispatched to the store itself.
    ///
    /// - Parameter store: The store.
    /// - Returns: Whether it was attached here.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised.
    @inlinable @discardableResult
    public func detach<State>(_ store: FluxStore<State>) -> Bool {
        store.resident.leave(store.core, from: self)
    }

    /// Detaches the store that has a name.
    ///
    /// - Parameter name: The name it was attached under.
    /// - Returns: Whether there was one.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised.
    @discardableResult
    public func detach(named name: String) -> Bool {
        fluxStopInsideHandle("detach(named:)")
        guard let (core, resident) = routes.withLock({ $0.holder(of: name) }) else { return false }
        return resident.leave(core, from: self)
    }

    /// Detaches all stores of a type of state.
    ///
    /// - Parameter type: The type.
    /// - Returns: How many there were.
    /// - Complexity: O(*n*) for *n* stores of the dispatcher.
    @discardableResult
    public func detach<State: FluxState>(_ type: State.Type) -> Int {
        fluxStopInsideHandle("detach")
        let found = routes.withLock { $0.stores { $0.state == type } }
        for (id, core, _) in found {
            let core = unsafeDowncast(core, to: FluxStoreCore<State>.self)
            if core.residentIfAny?.leave(core, from: self) == true { continue }
            detach([(ObjectIdentifier(State.Action.self), id)], of: core)
        }
        return found.count
    }

    /// The stores that are attached, in the order in which they get an action.
    ///
    /// - Complexity: O(*n* log *n*) for *n* stores.
    public var stores: [FluxStoreInfo] {
        fluxStopInsideHandle("FluxDispatcher.stores")
        return routes.withLock { $0.stores() }.compactMap { _, core, entrance in
            guard let core = core as? any FluxResiding else { return nil }
            return FluxStoreInfo(core: core, stateType: entrance.state)
        }
    }

    /// Whether an action of a type reaches any store from here: one that is attached, or one of a worker.
    ///
    /// - Parameter type: The type of action.
    /// - Returns: True if it does.
    /// - Complexity: O(1) and one step per worker.
    public func responds<Action: FluxAction>(to type: Action.Type) -> Bool {
        fluxStopInsideHandle("responds(to:)")
        return routes.withLock { $0.responds(to: ObjectIdentifier(type)) }
            || pipeline.chain.stations.contains { $0.worker?.responds(to: type) == true }
    }

    // MARK: - Attaching

    /// Attaches a core, which stays alive until it is detached; returns the id to detach it by.
    @inlinable
    func attach<State>(_ core: FluxStoreCore<State>) -> UInt64 {
        attach(core, action: State.Action.self, state: State.self) { core, action, wakes, passage in
            let core = unsafeDowncast(core, to: FluxStoreCore<State>.self)
            return core.apply(
                action.assumingMemoryBound(to: State.Action.self).pointee, waking: &wakes, through: &passage)
        }
    }

    @usableFromInline
    func attach(
        _ core: AnyObject, action: Any.Type, state: any FluxState.Type, apply: @escaping FluxEntrance.Apply
    ) -> UInt64 {
        fluxStopInsideHandle("FluxStore.init")
        return routes.withLock { routes in
            let entrance = routes.entrance(action: ObjectIdentifier(action), state: state) {
                FluxEntrance(action: action, state: state, apply: apply)
            }
            return routes.attach(core, entrance)
        }
    }

    func detach(action: Any.Type, id: UInt64) {
        detach([(ObjectIdentifier(action), id)])
    }

    /// Takes stores out, by the type of their actions and their ids; true if any was in.
    @discardableResult
    func detach(
        _ places: [(action: ObjectIdentifier, id: UInt64)], of core: FluxAnyCore? = nil, name: String? = nil
    ) -> Bool {
        let released = routes.withLock { routes in
            if let core { routes.untap(core) }
            if let core, let name { routes.unname(name, of: core) }
            let released = places.map { routes.detach(action: $0.action, id: $0.id) }
            markGuards(routes)
            return released
        }
        for core in released { core?.release() }
        return released.contains { $0 != nil }
    }

    /// To be called under the lock.
    func markGuards(_ routes: FluxRoutes) {
        if routes.hasGuards == (detours.load(ordering: .relaxed) & FluxDetours.guards != 0) { return }
        detours.fluxSet(routes.hasGuards ? FluxDetours.guards : 0, of: FluxDetours.guards)
    }
}

/// A name was to be given to a store while another one has it.
///
/// Thread safety: a value.
nonisolated public struct FluxNameTaken: Error, CustomStringConvertible {
    /// The name.
    public let name: String
    /// The store that has it.
    public let holder: FluxStoreInfo

    /// What happened and what to do instead, for a log.
    public var description: String {
        "The name \"\(name)\" is taken by a FluxStore<\(holder.stateType)> on this dispatcher: detach that one first, or "
            + "take another name."
    }
}
