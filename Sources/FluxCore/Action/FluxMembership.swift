import Synchronization

/// Where a store is attached, and what else it takes there: the few words that every store has.
nonisolated struct FluxMembership {
    typealias Reaction = (reducer: FluxReducer, key: UInt64)

    /// The dispatcher that the store is attached to, or what refers weakly to one that keeps the store.
    var home: (any AnyObject & Sendable)?
    /// What the store does about other types of action, and the keys of the places of that, in the order added.
    var reactions: ContiguousArray<Reaction> = []

    var dispatcher: FluxDispatcher? { home as? FluxDispatcher ?? (home as? FluxWeakDispatcher)?.reference.dispatcher }
}

/// Refers to a dispatcher and does not keep it.
nonisolated final class FluxWeakDispatcher: Sendable {
    struct Reference { weak var dispatcher: FluxDispatcher? }

    // A value in a constant: a `weak let` wants a newer compiler.
    let reference: Reference

    init(_ dispatcher: FluxDispatcher) { reference = Reference(dispatcher: dispatcher) }
}

/// How a store comes to a dispatcher and leaves it; the lock of its membership is taken before that of a dispatcher.
///
/// All that goes comes out of the locks: it may be the last reference to a dispatcher, and to what that has.
nonisolated extension FluxStoreHandle {
    /// Where it is attached.
    var dispatcher: FluxDispatcher? { withMembership("the dispatcher of a store") { _, home, _ in home } }

    /// The key of its place for the actions of its state; where it was last, the opposite: no other is like either.
    // Relaxed: written with the dispatcher stopped, and so before an action comes by that place. That it has arrived is written after it
    // has left, with the membership held: who asks where it is attached waits for that.
    var key: UInt64 { lastKey.load(ordering: .relaxed) }

    /// Reaches the membership, gives where the store is attached, and takes what is to be let go of once the lock is free.
    ///
    /// Pure code, which may hold a lock that is taken after this one, stops with a message.
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

    /// Moves the store to a dispatcher, in one step where it is there already, so that no action misses it.
    @usableFromInline func attach(
        to dispatcher: FluxDispatcher, keeping store: FluxReducer.Kept?, priority: Int, _ call: StaticString = "attach"
    ) {
        let rank = FluxRoutes.rank(priority)
        withMembership(call) { membership, former, gone in
            let (old, oldKey) = (membership, key)
            let moving = former == nil || former === dispatcher ? 0 : FluxRoutes.moving
            dispatcher.routes.withLock { routes in
                let known = store == nil ? routes.main(of: State.self, at: former === dispatcher ? oldKey : nil) : nil
                let reducer = (consume known) ?? work(self, .reducer(keeping: store)).reducer!
                let place = routes.attach(self, reducer, rank: rank)
                // Another one while it is in both, where what it left still applies actions to it.
                lastKey.store(place | moving, ordering: .relaxed)
                membership.home = reducer.kept == nil ? dispatcher : FluxWeakDispatcher(dispatcher)
                for (index, reaction) in old.reactions.enumerated() {
                    membership.reactions[index].key = routes.attach(self, reaction.reducer, rank: rank)
                }
                if former === dispatcher { return detach(old, oldKey, &routes, &gone) }
                for observer in routes.observers { observer.attached(self) }
            }
            if let former, former !== dispatcher { leave(former, old, oldKey, &gone) }
            lastKey.store(key & ~moving, ordering: .relaxed)
        }
    }

    /// Takes the store out of its dispatcher, if that is the one; with nil, whichever it is.
    @discardableResult func leave(_ dispatcher: FluxDispatcher?) -> Bool {
        withMembership("detach") { membership, home, gone in
            guard let home, dispatcher == nil || dispatcher === home else { return false }
            leave(home, membership, key, &gone)
            membership.home = nil
            lastKey.store(~key, ordering: .relaxed)
            return true
        }
    }

    private func leave(_ dispatcher: FluxDispatcher, _ old: FluxMembership, _ key: UInt64, _ gone: inout [AnyObject?]) {
        dispatcher.routes.withLock { routes in
            detach(old, key, &routes, &gone)
            for observer in routes.observers { observer.detached(self) }
        }
    }

    private func detach(_ old: FluxMembership, _ key: UInt64, _ routes: inout FluxRoutes, _ gone: inout [AnyObject?]) {
        gone.append(routes.detach(ObjectIdentifier(State.Action.self), key))
        for reaction in old.reactions { gone.append(routes.detach(reaction.reducer.action, reaction.key)) }
    }

    // MARK: - Other types of action

    /// Lets the store take another type of action, as a change that a closure makes of it; `store.on` is built on it.
    ///
    /// - Parameters:
    ///   - type: Which actions.
    ///   - change: Makes the change; called under the lock of the dispatcher, where it comes from one, and pure.
    /// - Returns: What to remove it by; it keeps the state in memory, and the store not.
    /// - Complexity: O(1), amortised; to remove it O(*n*) for the *n* that the store takes so.
    @inlinable public func route<Action: FluxAction>(
        _ type: Action.Type, _ change: @escaping @Sendable (Action) -> FluxChange<State>
    ) -> FluxRegistration { route(FluxReducer.reaction(change)) }

    @usableFromInline func route(_ reducer: FluxReducer) -> FluxRegistration {
        withMembership("on(_:)") { membership, home, _ in
            let place = home?.routes.withLock { $0.attach(self, reducer, rank: key >> FluxRoutes.numberBits) }
            membership.reactions.append((reducer, place ?? 0))
        }
        // Read before the lock is taken: this may be the last to have what is the user's.
        return FluxRegistration { [self, weak reducer] in remove { [reducer] in $0 === reducer } }
    }

    /// Takes reactions out, which are the user's.
    func remove(_ isUnwanted: (FluxReducer) -> Bool) {
        withMembership("remove") { membership, home, gone in
            // Most have none, and all come by here as they end.
            if membership.reactions.isEmpty { return }
            membership.reactions.removeAll { reaction in
                guard isUnwanted(reaction.reducer) else { return false }
                gone.append(reaction.reducer)
                gone.append(home?.routes.withLock { $0.detach(reaction.reducer.action, reaction.key) })
                return true
            }
        }
    }

    /// What the store does about a type of action, first things first.
    func reducers(of type: ObjectIdentifier) -> [FluxReducer] {
        withMembership("responds(to:)") { membership, _, _ in reducers(of: type, membership.reactions) }
    }

    func reducers(of type: ObjectIdentifier, _ reactions: ContiguousArray<FluxMembership.Reaction>) -> [FluxReducer] {
        (type == ObjectIdentifier(State.Action.self) ? [work(self, .reducer(keeping: nil)).reducer!] : [])
            + reactions.map(\.reducer).filter { $0.action == type }
    }
}
