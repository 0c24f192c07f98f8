/// How the actions of one type get into a store, without naming either type: what leads to its `handle`, or to a reaction.
///
/// Made where the types are known, so that the closure is the client's specialised code; it is kept under the type of its
/// action, and given no other.
@usableFromInline nonisolated final class FluxReducer: Sendable {
    /// Applies the action at an address to a store of the right type; returns the revision that announces it, 0 if none.
    @usableFromInline typealias Apply =
        @Sendable (
            _ handle: AnyObject, _ action: UnsafeRawPointer, _ thread: UnsafeMutablePointer<FluxThread>,
            _ wakes: inout FluxWakes, _ report: FluxDispatchReport?
        ) -> UInt64

    let action: ObjectIdentifier
    /// Whether it leads to a reaction rather than to the state's own `handle`.
    let isReaction: Bool
    fileprivate let apply: Apply

    @usableFromInline init(_ action: Any.Type, isReaction: Bool, _ apply: @escaping Apply) {
        (self.action, self.isReaction, self.apply) = (ObjectIdentifier(action), isReaction, apply)
    }

    /// Leads to the `handle` of a state.
    @inlinable static func main<State: FluxState>(_ state: State.Type) -> FluxReducer {
        FluxReducer(State.Action.self, isReaction: false) { handle, action, thread, wakes, report in
            let handle = unsafeDowncast(handle, to: FluxStoreHandle<State>.self)
            let action = action.assumingMemoryBound(to: State.Action.self)
            return handle.take(thread, &wakes, report) { $0.apply(action.pointee, &$1) }
        }
    }

    /// Leads to what a store does about another type of action.
    static func reaction<State, Action>(_ reactions: FluxReactions<State, Action>) -> FluxReducer {
        FluxReducer(Action.self, isReaction: true) { handle, action, thread, wakes, report in
            let handle = unsafeDowncast(handle, to: FluxStoreHandle<State>.self)
            let change = reactions.change(action.assumingMemoryBound(to: Action.self).pointee)
            return handle.take(thread, &wakes, report) { $0.apply(change, pastGate: false, &$1) }
        }
    }

    /// Applies an action of the right type.
    func apply(
        _ action: any FluxAction, to handle: AnyObject, _ thread: UnsafeMutablePointer<FluxThread>,
        _ wakes: inout FluxWakes, _ report: FluxDispatchReport?
    ) -> UInt64 {
        func open<Action: FluxAction>(_ action: Action, _ wakes: inout FluxWakes) -> UInt64 {
            withUnsafePointer(to: action) { apply(handle, UnsafeRawPointer($0), thread, &wakes, report) }
        }
        return open(action, &wakes)
    }
}

/// What the lock of a dispatcher guards: per action type, the stores that take it, in the order of priority and attachment.
nonisolated struct FluxRoutes {
    /// A store on a route; retained by hand, for a retain in the loop would be most of its cost.
    private struct Stop {
        let handle: Unmanaged<AnyObject>
        let reducer: Unmanaged<FluxReducer>

        init(_ handle: AnyObject, _ reducer: FluxReducer) {
            (self.handle, self.reducer) = (.passRetained(handle), .passRetained(reducer))
        }

        /// Hands out what it had retained, to be let go of outside the lock.
        func letGo() -> (AnyObject, FluxReducer) { (handle.takeRetainedValue(), reducer.takeRetainedValue()) }
    }

    /// A place on a dispatcher, for one type of action.
    struct Place {
        let action: ObjectIdentifier
        /// Its rank by priority, and behind that a number that only grows.
        let key: UInt64
    }

    private static var numberBits: UInt64 { 40 }

    private var routes: ContiguousArray<FluxList<Stop>> = []
    /// The ways into the stores of each type of state.
    private var mains: [ObjectIdentifier: FluxReducer] = [:]
    private var positions: [ObjectIdentifier: Int] = [:]
    private var lastNumber: UInt64 = 0
    /// The type of the last dispatch and its position: most dispatches in a row are of one type.
    private var recent: (type: ObjectIdentifier, position: Int)?
    /// Those who are told of stores that come and go.
    var observers: ContiguousArray<any FluxDispatcherObserver> = []
    /// The stores that nobody else need keep, by their handles.
    var kept: [ObjectIdentifier: AnyObject] = [:]

    init() {}

    // MARK: - Attaching

    /// The rank of a priority, of 24 bits: the highest comes first.
    static func rank(_ priority: Int) -> UInt64 {
        UInt64(0x7F_FFFF - Swift.max(-0x7F_FFFF, Swift.min(priority, 0x7F_FFFF)))
    }

    /// The rank that a place has; that of priority 0 for none.
    static func rank(of key: UInt64) -> UInt64 { key == 0 ? rank(0) : key >> numberBits }

    /// Adds a store, which stays in memory meanwhile, behind those of its rank; returns its key.
    mutating func attach(_ handle: AnyObject, _ reducer: FluxReducer, rank: UInt64) -> UInt64 {
        lastNumber += 1
        let key = rank << Self.numberBits | lastNumber
        routes[position(of: reducer.action) ?? add(reducer.action)].insert(Stop(handle, reducer), id: key)
        return key
    }

    /// The same for its state's own actions; the way into the stores of a type of state is made on the first call.
    mutating func attach(_ handle: AnyObject, _ state: Any.Type, rank: UInt64, _ make: () -> FluxReducer) -> UInt64 {
        if let known = mains[ObjectIdentifier(state)] { return attach(handle, known, rank: rank) }
        let reducer = make()
        mains[ObjectIdentifier(state)] = reducer
        return attach(handle, reducer, rank: rank)
    }

    /// Takes stores out of their places; what is handed out is to be let go of outside the lock.
    mutating func detach(_ places: [Place], _ gone: inout [Any]) {
        for place in places {
            guard let position = position(of: place.action), let stop = routes[position].remove(id: place.key) else {
                continue
            }
            gone.append(stop.letGo())
        }
    }

    /// Takes all stores out.
    mutating func detachAll() -> [Any] {
        [kept] + routes.indices.flatMap { routes[$0].removeAll().map { $0.letGo() as Any } }
    }

    // MARK: - Dispatching

    /// Applies the action at an address to all stores of its type; returns how many announced a change.
    mutating func apply(
        _ action: UnsafeRawPointer, _ type: ObjectIdentifier, _ thread: UnsafeMutablePointer<FluxThread>,
        _ wakes: inout FluxWakes, _ report: FluxDispatchReport?
    ) -> Int {
        guard let position = position(of: type) else { return 0 }
        var announced = 0
        routes[position].updateEach { stop in
            let revision = stop.handle._withUnsafeGuaranteedRef { handle in
                stop.reducer._withUnsafeGuaranteedRef { $0.apply(handle, action, thread, &wakes, report) }
            }
            if revision != 0 { announced += 1 }
        }
        return announced
    }

    // MARK: - Looking

    /// All stores, in the order of priority and attachment.
    var stores: [any FluxStoreHandling] {
        mutating get {
            var found: [(key: UInt64, store: any FluxStoreHandling)] = []
            for position in routes.indices {
                for (key, stop) in routes[position].pairs where !stop.reducer.takeUnretainedValue().isReaction {
                    if let store = stop.handle.takeUnretainedValue() as? any FluxStoreHandling {
                        found.append((key, store))
                    }
                }
            }
            return found.sorted { $0.key < $1.key }.map(\.store)
        }
    }

    /// Whether any store takes a type of action.
    func responds(to type: ObjectIdentifier) -> Bool { positions[type].map { !routes[$0].isEmpty } ?? false }

    private mutating func position(of type: ObjectIdentifier) -> Int? {
        if let recent, recent.type == type { return recent.position }
        guard let position = positions[type] else { return nil }
        recent = (type, position)
        return position
    }

    private mutating func add(_ type: ObjectIdentifier) -> Int {
        positions[type] = routes.count
        routes.append(FluxList())
        return routes.count - 1
    }
}

nonisolated extension FluxStoreHandle {
    /// Takes an action that comes by way of a dispatcher; returns the revision that announces it, 0 if none.
    @inlinable @inline(__always) func take(
        _ thread: UnsafeMutablePointer<FluxThread>, _ wakes: inout FluxWakes, _ report: FluxDispatchReport?,
        _ apply: (inout Machine, inout FluxWakes) -> UInt64?
    ) -> UInt64 {
        lock.withLock { machine in
            thread.purely(self) {
                guard let report else { return apply(&machine, &wakes) ?? 0 }
                let stamp = machine.stamp
                let revision = apply(&machine, &wakes)
                // What was held back is not told.
                if machine.stamp != stamp { report.applied(machine.state, by: self, revision: revision) }
                return revision ?? 0
            }
        }
    }
}
