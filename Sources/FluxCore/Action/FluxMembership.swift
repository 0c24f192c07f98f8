import Dispatch
import Synchronization

/// Where a store is attached, and what it takes there: the few words that every store has.
nonisolated struct FluxMembership {
    /// The dispatcher that the store is attached to, unless that keeps the store.
    var owner: FluxDispatcher?
    /// The key of its place for the actions of its state; 0 for none.
    var key: UInt64 = 0
}

/// What a store needs only once it does more than hold a state.
nonisolated final class FluxStoreExtras: Sendable {
    /// What the store does about another type of action, a `FluxReactions`, and the key of its place; 0 for none.
    struct Reaction {
        let reactions: any AnyObject & Sendable
        let reducer: FluxReducer
        var key: UInt64
    }

    private let lazyQueue = FluxLock<DispatchQueue?>(nil)
    let features = FluxFeatures()
    let label = FluxLock<String?>(nil)
    /// Changed under the lock of the membership.
    let reactions = FluxLock<ContiguousArray<Reaction>>([])
    let lastReaction = Synchronization.Atomic<UInt64>(0)
    /// The dispatcher that the store is attached to, if that keeps the store.
    let keeper = FluxLock<FluxWeakDispatcher?>(nil)

    init() {}

    /// Made on first use: it costs more than all the rest.
    var queue: DispatchQueue { lazyQueue.value { fluxQueue("FluxStore") } }
}

/// Refers to a dispatcher that keeps the store, which must not keep it in turn.
nonisolated final class FluxWeakDispatcher: Sendable {
    weak let dispatcher: FluxDispatcher?

    init(_ dispatcher: FluxDispatcher) { self.dispatcher = dispatcher }
}

/// How a store comes to a dispatcher and leaves it; the lock of its membership is taken before that of a dispatcher.
///
/// All that goes comes out of the locks: it may be the last reference to a dispatcher, and to what that has.
nonisolated extension FluxStoreHandle {
    /// Moves the store to a dispatcher, in one step where it is there already, so that no action misses it.
    @usableFromInline func attach(to dispatcher: FluxDispatcher, keeping store: AnyObject? = nil, priority: Int = 0) {
        FluxPureCode.forbid("attach")
        let rank = FluxRoutes.rank(priority)
        var gone: [Any] = []
        membership.withLock { membership in
            let former = home(membership)
            let old = former == nil ? [] : places(membership)
            if let former { gone.append(former) }
            dispatcher.routes.withLock { routes in
                membership.key = routes.attach(self, State.self, rank: rank) { mainReducer }
                extrasIfAny?.reactions.withLock { reactions in
                    for index in reactions.indices {
                        reactions[index].key = routes.attach(self, reactions[index].reducer, rank: rank)
                    }
                }
                if former === dispatcher { return take(old, from: &routes, keeping: store, &gone) }
                if let store { routes.kept[ObjectIdentifier(self)] = store }
                for observer in routes.observers { observer.attached(self) }
            }
            membership.owner = store == nil ? dispatcher : nil
            if store != nil || extrasIfAny != nil { keep(weakly: store == nil ? nil : dispatcher) }
            if let former, former !== dispatcher { leave(former, old, &gone) }
        }
        withExtendedLifetime(gone) {}
    }

    @usableFromInline @discardableResult func leave(_ dispatcher: FluxDispatcher?) -> Bool {
        var gone: [Any] = []
        membership.withLock { membership in
            guard let home = home(membership), dispatcher == nil || dispatcher === home else { return }
            let old = places(membership)
            (membership.owner, membership.key) = (nil, 0)
            extrasIfAny?.reactions.withLock { for index in $0.indices { $0[index].key = 0 } }
            if extrasIfAny != nil { keep(weakly: nil) }
            gone.append(home)
            leave(home, old, &gone)
        }
        return withExtendedLifetime(gone) { !gone.isEmpty }
    }

    /// The dispatcher that the store is attached to.
    func home(_ membership: FluxMembership) -> FluxDispatcher? {
        membership.owner ?? extrasIfAny?.keeper.withLock { $0?.dispatcher }
    }

    private func keep(weakly dispatcher: FluxDispatcher?) {
        extras.keeper.withLock { $0 = dispatcher.map { FluxWeakDispatcher($0) } }
    }

    private func leave(_ dispatcher: FluxDispatcher, _ places: [FluxRoutes.Place], _ gone: inout [Any]) {
        dispatcher.routes.withLock { routes in
            take(places, from: &routes, keeping: nil, &gone)
            for observer in routes.observers { observer.detached(self) }
        }
    }

    private func take(
        _ places: [FluxRoutes.Place], from routes: inout FluxRoutes, keeping store: AnyObject?, _ gone: inout [Any]
    ) {
        routes.detach(places, &gone)
        if routes.kept.isEmpty && store == nil { return }
        gone.append(routes.kept.removeValue(forKey: ObjectIdentifier(self)) as Any)
        routes.kept[ObjectIdentifier(self)] = store
    }

    /// Where it is routed from.
    private func places(_ membership: FluxMembership) -> [FluxRoutes.Place] {
        let main = FluxRoutes.Place(action: ObjectIdentifier(State.Action.self), key: membership.key)
        guard let extras = extrasIfAny else { return [main] }
        let reactions = extras.reactions.withLock { $0 }
        return [main] + reactions.map { FluxRoutes.Place(action: $0.reducer.action, key: $0.key) }
    }

    // MARK: - Other types of action

    /// Lets the store take another type of action, as a change that a closure makes of it; `store.on` is built on it.
    ///
    /// - Parameters:
    ///   - type: Which actions.
    ///   - change: Makes the change; called under the lock of the dispatcher, and pure.
    /// - Returns: What to remove it by; it keeps the state in memory, and the store not.
    public func route<Action: FluxAction>(
        _ type: Action.Type, _ change: @escaping @Sendable (Action) -> FluxChange<State>
    ) -> FluxRegistration {
        FluxPureCode.forbid("on(_:)")
        let body = FluxReactions<State, Action>.Body(change: change)
        let id = extras.lastReaction.add(1, ordering: .relaxed).newValue
        // Let go of outside the lock.
        let dispatcher = dispatcher
        defer { withExtendedLifetime(dispatcher) {} }
        membership.withLock { membership in
            let known = extras.reactions.withLock { $0 }.lazy.compactMap {
                $0.reactions as? FluxReactions<State, Action>
            }.first
            if let known { return known.bodies.withLock { $0.insert(body, id: id) } }
            let reactions = FluxReactions<State, Action>()
            reactions.bodies.withLock { $0.insert(body, id: id) }
            let reducer = FluxReducer.reaction(reactions)
            let rank = FluxRoutes.rank(of: membership.key)
            let key = home(membership)?.routes.withLock { $0.attach(self, reducer, rank: rank) } ?? 0
            extras.reactions.withLock {
                $0.append(FluxStoreExtras.Reaction(reactions: reactions, reducer: reducer, key: key))
            }
        }
        return FluxRegistration { [self] in
            remove { ($0.reactions as? FluxReactions<State, Action>)?.remove(id) ?? false }
        }
    }

    /// Takes reactions out, which are the user's.
    func remove(_ isUnwanted: (FluxStoreExtras.Reaction) -> Bool) {
        FluxPureCode.forbid("remove")
        var gone: [Any] = [dispatcher as Any]
        membership.withLock { membership in
            guard let all = extrasIfAny?.reactions.withLock({ $0 }) else { return }
            let unwanted = all.filter(isUnwanted)
            extrasIfAny?.reactions.withLock { $0.removeAll { one in unwanted.contains { $0.reducer === one.reducer } } }
            let places = unwanted.map { FluxRoutes.Place(action: $0.reducer.action, key: $0.key) }
            home(membership)?.routes.withLock { $0.detach(places, &gone) }
            gone += [all]
        }
        withExtendedLifetime(gone) {}
    }

    /// What leads to the state's own `handle`, as the client's module has specialised it.
    private var mainReducer: FluxReducer {
        guard case .reducer(let reducer) = work(.reducer) else { fatalError("FluxCore: a store without a reducer") }
        return reducer
    }

    /// What the store does about a type of action, first things first.
    @usableFromInline func reducers(of type: ObjectIdentifier) -> [FluxReducer] {
        let reactions = extrasIfAny?.reactions.withLock { $0 } ?? []
        return (type == ObjectIdentifier(State.Action.self) ? [mainReducer] : [])
            + reactions.map(\.reducer).filter { $0.action == type }
    }

    @usableFromInline
    func take(_ action: any FluxAction, _ wakes: inout FluxWakes, _ report: FluxDispatchReport?) -> Int? {
        let reducers = reducers(of: ObjectIdentifier(Swift.type(of: action)))
        if reducers.isEmpty { return nil }
        return reducers.count { $0.apply(action, to: self, threads.current, &wakes, report) != 0 }
    }
}

/// What a store does about one type of action that is not its state's own: all of it together is one change.
nonisolated final class FluxReactions<State: FluxState, Action: FluxAction>: Sendable {
    struct Body {
        let change: @Sendable (Action) -> FluxChange<State>
    }

    let bodies = FluxLock(FluxList<Body>())

    init() {}

    func change(_ action: Action) -> FluxChange<State> {
        let changes = bodies.withLock { $0.pairs }.map { $0.element.change(action) }
        if changes.count == 1 { return changes[0] }
        return .other(action) { state in changes.reduce(false) { $1.apply(to: &state) || $0 } }
    }

    /// Takes one out; true: it was the last.
    func remove(_ id: UInt64) -> Bool {
        // Let go of outside the lock.
        let (gone, isLast) = bodies.withLock { bodies in
            let gone = bodies.remove(id: id)
            return (gone, gone != nil && bodies.isEmpty)
        }
        return withExtendedLifetime(gone) { isLast }
    }
}
