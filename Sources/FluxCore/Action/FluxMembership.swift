import Synchronization

/// Where a store is attached, and its reactions; small, because every store has one.
nonisolated struct FluxMembership {
    typealias Reaction = (reducer: FluxReducer, key: UInt64)

    /// The dispatcher that the store is attached to; a `FluxWeakDispatcher` if the dispatcher keeps the store alive.
    var home: (any AnyObject & Sendable)?
    /// The store's reactions to other types of action, each with the key of its place, in the order added.
    var reactions: ContiguousArray<Reaction> = []

    var dispatcher: FluxDispatcher? { home as? FluxDispatcher ?? (home as? FluxWeakDispatcher)?.reference.dispatcher }
}

/// A weak reference to a dispatcher.
nonisolated final class FluxWeakDispatcher: Sendable {
    struct Reference { weak var dispatcher: FluxDispatcher? }

    // A struct in a constant: a `weak let` needs a newer compiler.
    let reference: Reference

    init(_ dispatcher: FluxDispatcher) { reference = Reference(dispatcher: dispatcher) }
}

/// Attaching a store and detaching it; the membership's lock is taken before a dispatcher's lock.
///
/// Removed objects are released outside the locks: one may be the last reference to a dispatcher and its contents.
nonisolated extension FluxStoreHandle {
    /// The dispatcher that the store is attached to.
    var dispatcher: FluxDispatcher? { withMembership("the dispatcher of a store") { _, home, _ in home } }

    /// The unique key of the store's place for its own actions; once detached, the complement of
    /// its last key, also unique.
    // Relaxed: an attach writes it while the dispatcher's lock is held, so before an action reaches that place. A
    // detach writes it, and a move clears its mark, after the store has left its former dispatcher, while the
    // membership's lock is held. A thread that checks where the store is attached waits for that lock.
    var placeKey: UInt64 { atomicPlaceKey.load(ordering: .relaxed) }

    /// Runs a closure on the membership and the store's dispatcher; releases the objects added to
    /// `gone` once the lock is free.
    ///
    /// A call from pure code stops the program with a message, because such code may hold a lock that
    /// is taken after this one.
    @inline(__always) func withMembership<Result>(
        _ call: StaticString, _ body: (inout FluxMembership, FluxDispatcher?, _ gone: inout [AnyObject?]) -> Result
    ) -> Result {
        threads.requireImpure(call)
        var (home, gone): (FluxDispatcher?, [AnyObject?]) = (nil, [])
        let result = membership.withLock { membership in
            home = membership.dispatcher
            return body(&membership, home, &gone)
        }
        return withExtendedLifetime((home, gone)) { result }
    }

    /// Attaches the store to a dispatcher or moves it there; atomic if it is there already, so no action misses it.
    @usableFromInline func attach(
        to dispatcher: FluxDispatcher, keeping store: FluxReducer.Kept?, priority: Int, _ call: StaticString = "attach"
    ) {
        let rank = FluxRoutes.rank(priority)
        withMembership(call) { membership, former, gone in
            let (old, oldKey) = (membership, placeKey)
            let moving = former == nil || former === dispatcher ? 0 : FluxRoutes.moving
            dispatcher.routes.withLock { routes in
                let known = store == nil ? routes.main(of: State.self, at: former === dispatcher ? oldKey : nil) : nil
                let reducer = (consume known) ?? work(self, .reducer(keeping: store)).reducer!
                let newKey = routes.attach(self, reducer, rank: rank)
                // A different key while the store is in both: the former dispatcher still applies actions to it.
                atomicPlaceKey.store(newKey | moving, ordering: .relaxed)
                membership.home = reducer.kept == nil ? dispatcher : FluxWeakDispatcher(dispatcher)
                for (index, reaction) in old.reactions.enumerated() {
                    membership.reactions[index].key = routes.attach(self, reaction.reducer, rank: rank)
                }
                if former === dispatcher { return vacate(old, oldKey, &routes, &gone) }
                for observer in routes.observers { observer.attached(self) }
            }
            if let former, former !== dispatcher { depart(former, old, oldKey, &gone) }
            atomicPlaceKey.store(placeKey & ~moving, ordering: .relaxed)
        }
    }

    /// Detaches the store if it is attached to the given dispatcher; with nil, from any dispatcher.
    @discardableResult func detach(from dispatcher: FluxDispatcher?) -> Bool {
        withMembership("detach") { membership, home, gone in
            guard let home, dispatcher == nil || dispatcher === home else { return false }
            depart(home, membership, placeKey, &gone)
            membership.home = nil
            atomicPlaceKey.store(~placeKey, ordering: .relaxed)
            return true
        }
    }

    private func depart(_ home: FluxDispatcher, _ old: FluxMembership, _ key: UInt64, _ gone: inout [AnyObject?]) {
        home.routes.withLock { routes in
            vacate(old, key, &routes, &gone)
            for observer in routes.observers { observer.detached(self) }
        }
    }

    private func vacate(_ old: FluxMembership, _ key: UInt64, _ routes: inout FluxRoutes, _ gone: inout [AnyObject?]) {
        gone.append(routes.detach(ObjectIdentifier(State.Action.self), key))
        for reaction in old.reactions { gone.append(routes.detach(reaction.reducer.action, reaction.key)) }
    }

    // MARK: - Other types of action

    /// Makes the store accept another type of action, as a change that a closure creates; `store.on` is built on it.
    ///
    /// - Parameters:
    ///   - type: The type of action.
    ///   - change: Creates the change. It must be pure, and is called while the dispatcher's lock is held if the action
    ///     comes from a dispatcher.
    /// - Returns: The registration, which removes the reaction. It keeps the state in memory, but not the store.
    /// - Complexity: O(1), amortised; O(*n*) if *n* stores have a lower priority. Removing it is O(*n*) for *n*
    ///   reactions of the store.
    @inlinable public func route<Action: FluxAction>(
        _ type: Action.Type, _ change: @escaping @Sendable (Action) -> FluxChange<State>
    ) -> FluxRegistration { route(FluxReducer.reaction(change)) }

    @usableFromInline func route(_ reducer: FluxReducer) -> FluxRegistration {
        withMembership("on(_:_:) or route(_:_:)") { membership, home, _ in
            let newKey = home?.routes.withLock { $0.attach(self, reducer, rank: placeKey >> FluxRoutes.numberBits) }
            membership.reactions.append((reducer, newKey ?? 0))
        }
        // The weak reference is read before the lock is taken. It may become the last strong reference to the user's
        // closure, which must be released outside the lock.
        return FluxRegistration { [self, weak reducer] in removeReactions { [reducer] in $0 === reducer } }
    }

    /// Removes reactions, and releases their closures, which belong to the user, once the lock is free.
    func removeReactions(where isUnwanted: (FluxReducer) -> Bool) {
        withMembership("remove") { membership, home, gone in
            // Most stores have none, and every store gets here when it ends.
            if membership.reactions.isEmpty { return }
            membership.reactions.removeAll { reaction in
                guard isUnwanted(reaction.reducer) else { return false }
                gone.append(reaction.reducer)
                gone.append(home?.routes.withLock { $0.detach(reaction.reducer.action, reaction.key) })
                return true
            }
        }
    }

    /// The reducers of the store for a type of action, in the order in which they run.
    func reducers(of type: ObjectIdentifier) -> [FluxReducer] {
        withMembership("takes(_:) or responds(to:)") { membership, _, _ in reducers(of: type, membership.reactions) }
    }

    func reducers(of type: ObjectIdentifier, _ reactions: ContiguousArray<FluxMembership.Reaction>) -> [FluxReducer] {
        (type == ObjectIdentifier(State.Action.self) ? [work(self, .reducer(keeping: nil)).reducer!] : [])
            + reactions.map(\.reducer).filter { $0.action == type }
    }
}
