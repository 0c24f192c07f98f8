import Synchronization

/// Leads actions of one type into a store, to its `handle` or to a reaction, without naming either type.
///
/// Created where the types are known, so that the closure is the client's specialised code. It is stored under the type
/// of its action, and receives no other type.
@usableFromInline nonisolated final class FluxReducer: Sendable {
    /// Applies the action at an address to a store of the right type; returns the announced revision, 0 if none.
    @usableFromInline typealias Apply =
        @Sendable (
            _ handle: AnyObject, _ action: UnsafeRawPointer, _ thread: UnsafeMutablePointer<FluxThread>,
            _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?
        ) -> UInt64

    /// A store that its dispatcher keeps alive.
    @usableFromInline typealias Kept = any AnyObject & Sendable

    let action: ObjectIdentifier
    /// The type of state whose own `handle` it leads to; nil if it leads to a reaction.
    let state: ObjectIdentifier?
    let apply: Apply
    /// The store, if its dispatcher is to keep it alive.
    let kept: Kept?

    @usableFromInline init(
        _ action: ObjectIdentifier, of state: ObjectIdentifier? = nil, keeping kept: Kept? = nil,
        _ apply: @escaping Apply
    ) {
        (self.action, self.state, self.kept, self.apply) = (action, state, kept, apply)
    }

    /// Returns a reducer that leads to the `handle` of a state, and keeps a store if given one.
    @inlinable static func main<State: FluxState>(_ state: State.Type, keeping kept: Kept?) -> FluxReducer {
        FluxReducer(.init(State.Action.self), of: .init(state), keeping: kept) {
            handle, action, thread, wakes, witness in
            let handle = unsafeDowncast(handle, to: FluxStoreHandle<State>.self)
            let action = action.assumingMemoryBound(to: State.Action.self)
            if witness == nil { return handle.apply(action.pointee, thread, &wakes) ?? 0 }
            return handle.take(thread, &wakes, witness) { $0.apply(action.pointee, &$1) }
        }
    }

    /// Returns a reducer that leads to a store's reaction to another type of action.
    @inlinable static func reaction<State, Action: FluxAction>(
        _ change: @escaping @Sendable (Action) -> FluxChange<State>
    ) -> FluxReducer {
        FluxReducer(.init(Action.self)) { handle, action, thread, wakes, witness in
            let handle = unsafeDowncast(handle, to: FluxStoreHandle<State>.self)
            var change = Optional(thread.purely(handle) { change(action.load(as: Action.self)) })
            let revision = handle.take(thread, &wakes, witness) { $0.apply(change!, pastGate: false, &$1) }
            // Released as pure code: the dispatcher's lock is held, and this may be the last reference to user objects.
            thread.purely(handle) { change = nil }
            return revision
        }
    }
}

/// What the lock of a dispatcher guards: for each action type, its stores in the order of priority and attachment.
nonisolated struct FluxRoutes {
    /// A store on a route; retained by hand, because a retain in the loop would be most of the loop's cost.
    struct Stop {
        let handle: Unmanaged<AnyObject>
        let reducer: Unmanaged<FluxReducer>

        init(_ handle: AnyObject, _ reducer: FluxReducer) {
            (self.handle, self.reducer) = (.passRetained(handle), .passRetained(reducer))
        }

        /// Returns what it had retained, to be released outside the lock.
        func takeRetained() -> (AnyObject, FluxReducer) { (handle.takeRetainedValue(), reducer.takeRetainedValue()) }
    }

    /// The stores that take one type of action; used under the lock.
    ///
    /// A class, because in a collection of lists each dispatch would check whether the list is shared.
    private final class Route {
        @exclusivity(unchecked) var stops = FluxList<Stop>()
    }

    /// How many bits of a key are its number; the bits above are its rank.
    ///
    /// All dispatchers draw from one sequence. With 100,000 attachments a second, 44 bits last for almost three years.
    static var numberBits: UInt64 { 44 }
    /// The highest bit of the number, which no number reaches: set while a store moves between two dispatchers.
    static var moving: UInt64 { 1 << (numberBits - 1) }

    private var routes: [ObjectIdentifier: Route] = [:]
    private static let lastNumber = Synchronization.Atomic<UInt64>(0)
    /// The route of the last dispatch, because consecutive dispatches mostly have the same type.
    ///
    /// It stays valid: a route is never removed.
    private var recent: (type: ObjectIdentifier, route: Unmanaged<Route>)?
    /// The observers of stores that are attached and detached.
    var observers: ContiguousArray<any FluxDispatcherObserver> = []

    // MARK: - Attaching

    /// Returns the rank of a priority, in 20 bits: the highest priority comes first.
    static func rank(_ priority: Int) -> UInt64 {
        UInt64(0x7_FFFF - Swift.max(-0x7_FFFF, Swift.min(priority, 0x7_FFFF)))
    }

    /// Adds a store behind those of its rank, and keeps it in memory while it is there; returns the key of its place.
    ///
    /// The key consists of the rank and, below it, a number that only grows.
    mutating func attach(_ handle: AnyObject, _ reducer: FluxReducer, rank: UInt64) -> UInt64 {
        // Relaxed: drawn under the lock, and so in the order in which the stores are attached.
        let key = rank << Self.numberBits | Self.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
        if route(of: reducer.action) == nil { routes[reducer.action] = Route() }
        route(of: reducer.action)?._withUnsafeGuaranteedRef { $0.stops.insert(Stop(handle, reducer), id: key) }
        return key
    }

    /// Returns an existing reducer to use again for a store's own actions, so that not each store has its own; or nil.
    ///
    /// With a key, it is the reducer at that place, which may keep the store. Without one, it is that of the last store
    /// on the route, if it leads to the same type of state and keeps no store.
    mutating func main<State: FluxState>(of state: State.Type, at key: UInt64?) -> FluxReducer? {
        route(of: ObjectIdentifier(State.Action.self))?._withUnsafeGuaranteedRef { route in
            let stop = if let key { route.stops.update(id: key) { $0 } } else { route.stops.last }
            let reducer = stop?.reducer.takeUnretainedValue()
            return key != nil || reducer?.state == ObjectIdentifier(state) && reducer?.kept == nil ? reducer : nil
        }
    }

    /// Takes a store, which the caller holds, out of its place; release what this returns outside the lock.
    mutating func detach(_ action: ObjectIdentifier, _ key: UInt64) -> FluxReducer? {
        route(of: action)?._withUnsafeGuaranteedRef { $0.stops.remove(id: key)?.takeRetained().1 }
    }

    // MARK: - Dispatching

    /// Applies the action at an address to all stores of its type; returns how many changes were announced.
    mutating func apply(
        _ action: UnsafeRawPointer, _ type: ObjectIdentifier, _ thread: UnsafeMutablePointer<FluxThread>,
        _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?
    ) -> Int {
        guard let route = route(of: type) else { return 0 }
        var announced = 0
        route._withUnsafeGuaranteedRef { route in
            route.stops.updateEach { stop in
                let revision = stop.handle._withUnsafeGuaranteedRef { handle in
                    stop.reducer._withUnsafeGuaranteedRef { $0.apply(handle, action, thread, &wakes, witness) }
                }
                if revision != 0 { announced += 1 }
            }
        }
        return announced
    }

    // MARK: - Looking

    /// All stores, in the order of priority and attachment.
    var stores: [any FluxStoreHandling] {
        places.filter { $0.reducer.takeUnretainedValue().state != nil }
            .compactMap { $0.handle.takeUnretainedValue() as? any FluxStoreHandling }
    }

    /// All places, including those of reactions, in the same order.
    var places: [Stop] { routes.values.flatMap { $0.stops.pairs() }.sorted { $0.id < $1.id }.map(\.element) }

    private mutating func route(of type: ObjectIdentifier) -> Unmanaged<Route>? {
        if let recent, recent.type == type { return recent.route }
        guard let route = routes[type] else { return nil }
        recent = (type, .passUnretained(route))
        return recent?.route
    }
}

nonisolated extension FluxStoreHandle {
    /// Applies an action of the state's own type; returns the announced revision.
    @inlinable @inline(__always) func apply(
        _ action: State.Action, _ thread: UnsafeMutablePointer<FluxThread>, _ wakes: inout FluxWakes
    ) -> UInt64? { lock.withLock { access in thread.purely(self) { access.apply(action, &wakes) } } }

    /// Accepts an action from a dispatcher; returns the announced revision, 0 if none.
    @inlinable func take(
        _ thread: UnsafeMutablePointer<FluxThread>, _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?,
        _ apply: (inout FluxStoreAccess<State>, inout FluxWakes) -> UInt64?
    ) -> UInt64 {
        lock.withLock { access in
            thread.purely(self) {
                let stamp = access.stamp
                let revision = apply(&access, &wakes)
                // A change that was held back is not reported.
                if let witness, access.stamp != stamp { witness(FluxStoreInfo(self), revision) { access.state } }
                return revision ?? 0
            }
        }
    }

    func take<Action: FluxAction>(
        _ action: Action, from dispatcher: FluxDispatcher, _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?
    ) -> Int? {
        // With the lock of the membership held, so that the action comes before a detach or not at all.
        withMembership("deliver") { membership, home, _ in
            let reducers = reducers(of: ObjectIdentifier(Action.self), membership.reactions)
            if home !== dispatcher || reducers.isEmpty { return nil }
            return withUnsafePointer(to: action) { action in
                // Under the dispatcher's lock: no other action comes between two reactions to this one (C4).
                dispatcher.routes.withLock { _ in
                    reducers.count { $0.apply(self, action, threads.current, &wakes, witness) != 0 }
                }
            }
        }
    }
}
