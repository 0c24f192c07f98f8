import Synchronization

/// How the actions of one type get into a store, without naming either type: what leads to its `handle`, or to a reaction.
///
/// Made where the types are known, so that the closure is the client's specialised code; it is kept under the type of its
/// action, and given no other.
@usableFromInline nonisolated final class FluxReducer: Sendable {
    /// Applies the action at an address to a store of the right type; returns the revision that announces it, 0 if none.
    @usableFromInline typealias Apply =
        @Sendable (
            _ handle: AnyObject, _ action: UnsafeRawPointer, _ thread: UnsafeMutablePointer<FluxThread>,
            _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?
        ) -> UInt64

    /// A store that its dispatcher keeps.
    @usableFromInline typealias Kept = any AnyObject & Sendable

    let action: ObjectIdentifier
    /// The type of state whose own `handle` it leads to; nil: it leads to a reaction.
    let state: ObjectIdentifier?
    let apply: Apply
    /// The store, where its dispatcher is to keep it.
    let kept: Kept?

    @usableFromInline init(
        _ action: ObjectIdentifier, of state: ObjectIdentifier? = nil, keeping kept: Kept? = nil,
        _ apply: @escaping Apply
    ) {
        (self.action, self.state, self.kept, self.apply) = (action, state, kept, apply)
    }

    /// Leads to the `handle` of a state, and keeps a store if it is given one.
    @inlinable static func main<State: FluxState>(_ state: State.Type, keeping kept: Kept?) -> FluxReducer {
        FluxReducer(.init(State.Action.self), of: .init(state), keeping: kept) {
            handle, action, thread, wakes, witness in
            let handle = unsafeDowncast(handle, to: FluxStoreHandle<State>.self)
            let action = action.assumingMemoryBound(to: State.Action.self)
            if witness == nil { return handle.apply(action.pointee, thread, &wakes) ?? 0 }
            return handle.take(thread, &wakes, witness) { $0.apply(action.pointee, &$1) }
        }
    }

    /// Leads to what a store does about another type of action.
    @inlinable static func reaction<State, Action: FluxAction>(
        _ change: @escaping @Sendable (Action) -> FluxChange<State>
    ) -> FluxReducer {
        FluxReducer(.init(Action.self)) { handle, action, thread, wakes, witness in
            let handle = unsafeDowncast(handle, to: FluxStoreHandle<State>.self)
            var change = Optional(thread.purely(handle) { change(action.load(as: Action.self)) })
            let revision = handle.take(thread, &wakes, witness) { $0.apply(change!, pastGate: false, &$1) }
            // It goes under the lock of the dispatcher, and may be the last to have what is in it.
            thread.purely(handle) { change = nil }
            return revision
        }
    }
}

/// What the lock of a dispatcher guards: per action type, the stores that take it, in the order of priority and attachment.
nonisolated struct FluxRoutes {
    /// A store on a route; retained by hand, for a retain in the loop would be most of its cost.
    struct Stop {
        let handle: Unmanaged<AnyObject>
        let reducer: Unmanaged<FluxReducer>

        init(_ handle: AnyObject, _ reducer: FluxReducer) {
            (self.handle, self.reducer) = (.passRetained(handle), .passRetained(reducer))
        }

        /// Hands out what it had retained, to be let go of outside the lock.
        func letGo() -> (AnyObject, FluxReducer) { (handle.takeRetainedValue(), reducer.takeRetainedValue()) }
    }

    /// The stores that take one type, used under the lock; in an array of lists, each dispatch would ask whether that is shared.
    private final class Route {
        @exclusivity(unchecked) var stops = FluxList<Stop>()
    }

    /// How many bits of a key are its number; those above are its rank.
    static var numberBits: UInt64 { 40 }
    /// The highest of them, which no number comes to, of a store that is on its way from one dispatcher to another.
    static var moving: UInt64 { 1 << (numberBits - 1) }

    private var routes: [ObjectIdentifier: Route] = [:]
    private static let lastNumber = Synchronization.Atomic<UInt64>(0)
    /// That of the last dispatch, since most in a row are of one type; it is among those above for good, as a route is never removed.
    private var recent: (type: ObjectIdentifier, route: Unmanaged<Route>)?
    /// Those who are told of stores that come and go.
    var observers: ContiguousArray<any FluxDispatcherObserver> = []

    // MARK: - Attaching

    /// The rank of a priority, of 24 bits: the highest comes first.
    static func rank(_ priority: Int) -> UInt64 {
        UInt64(0x7F_FFFF - Swift.max(-0x7F_FFFF, Swift.min(priority, 0x7F_FFFF)))
    }

    /// Adds a store, which stays in memory meanwhile, behind those of its rank; returns the key of its place, which has the
    /// rank, and behind that a number that only grows.
    mutating func attach(_ handle: AnyObject, _ reducer: FluxReducer, rank: UInt64) -> UInt64 {
        // Relaxed: taken under the lock, and so in the order in which they come here.
        let key = rank << Self.numberBits | Self.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
        if route(of: reducer.action) == nil { routes[reducer.action] = Route() }
        route(of: reducer.action)?._withUnsafeGuaranteedRef { $0.stops.insert(Stop(handle, reducer), id: key) }
        return key
    }

    /// A way into a store that is known: that of its place, which may keep the store, or of the last of its type.
    mutating func main<State: FluxState>(of state: State.Type, at key: UInt64?) -> FluxReducer? {
        route(of: ObjectIdentifier(State.Action.self))?._withUnsafeGuaranteedRef { route in
            let stop = if let key { route.stops.update(id: key) { $0 } } else { route.stops.last }
            let reducer = stop?.reducer.takeUnretainedValue()
            return key != nil || reducer?.state == ObjectIdentifier(state) && reducer?.kept == nil ? reducer : nil
        }
    }

    /// Takes a store, which the caller has, out of a place; what is handed out is to be let go of outside the lock.
    mutating func detach(_ action: ObjectIdentifier, _ key: UInt64) -> FluxReducer? {
        route(of: action)?._withUnsafeGuaranteedRef { $0.stops.remove(id: key)?.letGo().1 }
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

    /// All places, those of reactions among them, in that order.
    var places: [Stop] { routes.values.flatMap { $0.stops.pairs() }.sorted { $0.id < $1.id }.map(\.element) }

    private mutating func route(of type: ObjectIdentifier) -> Unmanaged<Route>? {
        if let recent, recent.type == type { return recent.route }
        guard let route = routes[type] else { return nil }
        recent = (type, .passUnretained(route))
        return recent?.route
    }
}

nonisolated extension FluxStoreHandle {
    /// Applies an action of the state's own; returns the revision that announces it.
    @inlinable @inline(__always) func apply(
        _ action: State.Action, _ thread: UnsafeMutablePointer<FluxThread>, _ wakes: inout FluxWakes
    ) -> UInt64? { lock.withLock { machine in thread.purely(self) { machine.apply(action, &wakes) } } }

    /// Takes what comes by way of a dispatcher; returns the revision that announces it, 0 if none.
    @inlinable func take(
        _ thread: UnsafeMutablePointer<FluxThread>, _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?,
        _ apply: (inout FluxStoreAccess<State>, inout FluxWakes) -> UInt64?
    ) -> UInt64 {
        lock.withLock { machine in
            thread.purely(self) {
                let stamp = machine.stamp
                let revision = apply(&machine, &wakes)
                // What was held back is not told.
                if let witness, machine.stamp != stamp { witness(FluxStoreInfo(self), revision) { machine.state } }
                return revision ?? 0
            }
        }
    }

    func take<Action: FluxAction>(
        _ action: Action, from dispatcher: FluxDispatcher, _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?
    ) -> Int? {
        // With that lock held, so that it comes before a detach, or not at all.
        withMembership("deliver") { membership, home, _ in
            let reducers = reducers(of: ObjectIdentifier(Action.self), membership.reactions)
            if home !== dispatcher || reducers.isEmpty { return nil }
            return withUnsafePointer(to: action) { action in
                // In one order with all that the dispatcher does: nothing comes between two reactions to one action (C4).
                dispatcher.routes.withLock { _ in
                    reducers.count { $0.apply(self, action, threads.current, &wakes, witness) != 0 }
                }
            }
        }
    }
}
