/// How the actions of one type get into the stores of one state type, without naming either.
@usableFromInline
nonisolated final class FluxEntrance: Sendable {
    /// Applies the action at an address to a core of the right type; true if it announced a change.
    ///
    /// It captures nothing: made where the client's types are known, it is the specialised code itself.
    @usableFromInline typealias Apply =
        @Sendable (_ core: AnyObject, _ action: UnsafeRawPointer, _ wakes: inout FluxWakes<FluxWake>) -> Bool

    let action: ObjectIdentifier
    let state: ObjectIdentifier
    fileprivate let apply: Apply

    @usableFromInline
    init(action: Any.Type, state: Any.Type, apply: @escaping Apply) {
        self.action = ObjectIdentifier(action)
        self.state = ObjectIdentifier(state)
        self.apply = apply
    }
}

/// What the lock of a dispatcher guards: per action type, the stores that take it, in the order of attachment.
nonisolated struct FluxRoutes {
    /// The stores of one action type.
    ///
    /// The cores are retained by hand: a retain in the loop would be most of its cost.
    private struct Route {
        struct Stop {
            let core: Unmanaged<AnyObject>
            let entrance: Unmanaged<FluxEntrance>
        }

        var stops = FluxSlots<Stop>()
        /// One per state type, each retained here for good.
        var entrances: ContiguousArray<FluxEntrance> = []
    }

    private var routes: ContiguousArray<Route> = []
    private var positions: [ObjectIdentifier: Int] = [:]
    private var lastID: UInt64 = 0
    /// The type of the last dispatch and its position: most dispatches in a row are of one type.
    private var recent: (type: ObjectIdentifier, position: Int)?
    /// Told of what all stores apply, once somebody has subscribed to that.
    private var tap: FluxActionTap?

    /// The way into the stores of a state type, made on the first call.
    mutating func entrance(
        action: ObjectIdentifier, state: ObjectIdentifier, make: () -> FluxEntrance
    ) -> FluxEntrance {
        let position = position(of: action) ?? add(action)
        if let known = routes[position].entrances.first(where: { $0.state == state }) { return known }
        let made = make()
        routes[position].entrances.append(made)
        return made
    }

    /// Adds a store, whose core it keeps alive, at the end; returns its id.
    mutating func attach(_ core: AnyObject, _ entrance: FluxEntrance) -> UInt64 {
        lastID += 1
        let position = position(of: entrance.action) ?? add(entrance.action)
        let stop = Route.Stop(core: .passRetained(core), entrance: .passUnretained(entrance))
        routes[position].stops.insert(stop, id: lastID)
        if let tap { (core as? any FluxTapped)?.add(tap) }
        return lastID
    }

    /// The tap of all stores, those that are attached later too; made on the first call.
    mutating func tapAll() -> FluxActionTap {
        if let tap { return tap }
        let made = FluxActionTap()
        tap = made
        for position in routes.indices {
            routes[position].stops.updateEach { stop in
                (stop.core.takeUnretainedValue() as? any FluxTapped)?.add(made)
            }
        }
        return made
    }

    /// Takes a store out; the caller has to release its core, outside the lock.
    mutating func detach(action: ObjectIdentifier, id: UInt64) -> Unmanaged<AnyObject>? {
        guard let position = position(of: action) else { return nil }
        return routes[position].stops.remove(id: id)?.core
    }

    /// Applies the action at an address to all stores of its type; returns how many announced a change.
    mutating func dispatch(
        _ action: UnsafeRawPointer,
        type: ObjectIdentifier,
        waking wakes: inout FluxWakes<FluxWake>
    ) -> Int {
        guard let position = position(of: type) else { return 0 }
        var announced = 0
        routes[position].stops.updateEach { stop in
            stop.core._withUnsafeGuaranteedRef { core in
                if stop.entrance._withUnsafeGuaranteedRef({ $0.apply(core, action, &wakes) }) { announced += 1 }
            }
        }
        return announced
    }

    private mutating func position(of type: ObjectIdentifier) -> Int? {
        if let recent, recent.type == type { return recent.position }
        guard let position = positions[type] else { return nil }
        recent = (type, position)
        return position
    }

    private mutating func add(_ type: ObjectIdentifier) -> Int {
        positions[type] = routes.count
        routes.append(Route())
        return routes.count - 1
    }
}
