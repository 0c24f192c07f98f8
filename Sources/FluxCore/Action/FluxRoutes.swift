/// What the lock of a dispatcher guards: per action type, the stores that take it, in the order of priority and attachment.
nonisolated struct FluxRoutes {
    /// A store that has middleware of its own.
    struct Guard {
        let id: UInt64
        let priority: Int
        let core: FluxAnyCore
        let resident: FluxResident
    }

    private var routes: ContiguousArray<FluxRoute> = []
    private var positions: [ObjectIdentifier: Int] = [:]
    private var lastID: UInt64 = 0
    /// The type of the last dispatch and its position: most dispatches in a row are of one type.
    private var recent: (type: ObjectIdentifier, position: Int)?
    /// Told of what all stores apply, once somebody has subscribed to that.
    private var tap: FluxActionTap?
    private var tapUses = 0
    /// Those attached under a name.
    private var names: [String: (core: FluxAnyCore, resident: FluxResident)] = [:]
    private var guards: [ObjectIdentifier: ContiguousArray<Guard>] = [:]

    // MARK: - Attaching

    /// The way into the stores of a state type, made on the first call.
    mutating func entrance(
        action: ObjectIdentifier, state: any FluxState.Type, make: () -> FluxEntrance
    ) -> FluxEntrance {
        let position = position(of: action) ?? add(action)
        if let known = routes[position].entrances.first(where: { ObjectIdentifier($0.state) == ObjectIdentifier(state) }
        ) {
            return known
        }
        let made = make()
        routes[position].entrances.append(made)
        return made
    }

    /// Adds a store, whose core it keeps alive, behind those of its priority; returns its id.
    mutating func attach(_ core: AnyObject, _ entrance: FluxEntrance, priority: Int = 0) -> UInt64 {
        lastID += 1
        let position = position(of: entrance.action) ?? add(entrance.action)
        let stop = FluxRoute.Stop(core: .passRetained(core), entrance: .passUnretained(entrance))
        routes[position].insert(stop, id: lastID, priority: priority)
        if let tap { (core as? any FluxTapped)?.add(tap) }
        return lastID
    }

    /// The tap of all stores, those that are attached later too, made for the first of its users.
    mutating func useTap() -> FluxActionTap {
        tapUses += 1
        if let tap { return tap }
        let made = FluxActionTap()
        tap = made
        for position in routes.indices {
            routes[position].forEach { stop in
                (stop.core.takeUnretainedValue() as? any FluxTapped)?.add(made)
            }
        }
        return made
    }

    /// One who used the tap has left; with the last of them the stores tell of nothing any longer.
    ///
    /// - Returns: The tap, to be let go of outside the lock.
    mutating func leaveTap() -> FluxActionTap? {
        tapUses -= 1
        guard tapUses == 0, let old = fluxTake(&tap) else { return nil }
        for position in routes.indices {
            routes[position].forEach { stop in (stop.core.takeUnretainedValue() as? any FluxTapped)?.remove(old) }
        }
        return old
    }

    /// A store has left: the tap is not told of what it applies from now on.
    func untap(_ core: AnyObject) {
        if let tap { (core as? any FluxTapped)?.remove(tap) }
    }

    /// Takes a store out; the caller has to release its core, outside the lock.
    mutating func detach(action: ObjectIdentifier, id: UInt64) -> Unmanaged<AnyObject>? {
        removeGuard(action: action, id: id)
        guard let position = position(of: action) else { return nil }
        return routes[position].remove(id: id)?.core
    }

    // MARK: - Names

    /// Who has a name.
    func holder(of name: String) -> (core: FluxAnyCore, resident: FluxResident)? {
        names[name]
    }

    mutating func name(_ core: FluxAnyCore, _ resident: FluxResident, _ name: String) {
        names[name] = (core, resident)
    }

    /// Frees a name if a store has it; the core keeps the store's parts alive for as long as the caller does.
    mutating func unname(_ name: String, of core: FluxAnyCore) {
        if names[name]?.core === core { names[name] = nil }
    }

    // MARK: - Stores with middleware of their own

    var hasGuards: Bool { !guards.isEmpty }

    /// The stores with middleware of their own that take a type of action, in the order of the stores.
    func guards(of type: ObjectIdentifier) -> ContiguousArray<Guard> {
        guards[type] ?? []
    }

    mutating func add(_ guarded: Guard, action: ObjectIdentifier) {
        // A store that was detached by its type may not know it.
        guard let position = position(of: action), routes[position].contains(id: guarded.id) else { return }
        guards[action, default: []].fluxAdd(guarded)
    }

    /// Takes out one that has middleware no longer.
    mutating func removeGuard(action: ObjectIdentifier, id: UInt64) {
        guard let index = guards[action]?.firstIndex(where: { $0.id == id }) else { return }
        guards[action]?.remove(at: index)
        if guards[action]?.isEmpty == true { guards[action] = nil }
    }

    // MARK: - Dispatching

    /// Applies the action at an address to all stores of its type; returns how many announced a change.
    mutating func dispatch(
        _ action: UnsafeRawPointer, type: ObjectIdentifier, waking wakes: inout FluxWakes<FluxWake>,
        through passage: inout FluxPassage
    ) -> Int {
        guard let position = position(of: type) else { return 0 }
        var announced = 0
        routes[position].forEach { stop in
            stop.core._withUnsafeGuaranteedRef { core in
                if stop.entrance._withUnsafeGuaranteedRef({ $0.apply(core, action, &wakes, &passage) }) != 0 {
                    announced += 1
                }
            }
        }
        return announced
    }

    /// Applies an action to all stores of its type, except that each with a plan gets what that says.
    mutating func dispatch(
        _ action: any FluxAction, plans: FluxPlans, waking wakes: inout FluxWakes<FluxWake>,
        through passage: inout FluxPassage
    ) -> FluxTally {
        var tally = FluxTally()
        guard let position = position(of: ObjectIdentifier(Swift.type(of: action))) else { return tally }
        routes[position].forEach { stop in
            let core = stop.core.takeUnretainedValue()
            switch plans[ObjectIdentifier(core)] {
            case nil:
                tally.add(
                    stop.entrance.takeUnretainedValue().apply(action, to: core, waking: &wakes, through: &passage))
            case .some(nil): break
            case .some(let plan?):
                tally.add(plan.entrance.apply(plan.action, to: core, waking: &wakes, through: &passage))
            }
        }
        return tally
    }

    // MARK: - Looking

    /// All stores, in the order of priority and attachment.
    func stores(
        where isWanted: (FluxEntrance) -> Bool = { _ in true }
    ) -> [(id: UInt64, core: AnyObject, entrance: FluxEntrance)] {
        var found: [(id: UInt64, priority: Int, core: AnyObject, entrance: FluxEntrance)] = []
        for route in routes {
            route.forEachSlot { id, priority, stop in
                let entrance = stop.entrance.takeUnretainedValue()
                if entrance.isReaction || !isWanted(entrance) { return }
                found.append((id, priority, stop.core.takeUnretainedValue(), entrance))
            }
        }
        found.sort { ($1.priority, $0.id) < ($0.priority, $1.id) }
        return found.map { ($0.id, $0.core, $0.entrance) }
    }

    /// Whether any store takes a type of action.
    func responds(to type: ObjectIdentifier) -> Bool {
        positions[type].map { !routes[$0].isEmpty } ?? false
    }

    // MARK: - Support

    private mutating func position(of type: ObjectIdentifier) -> Int? {
        if let recent, recent.type == type { return recent.position }
        guard let position = positions[type] else { return nil }
        recent = (type, position)
        return position
    }

    private mutating func add(_ type: ObjectIdentifier) -> Int {
        positions[type] = routes.count
        routes.append(FluxRoute())
        return routes.count - 1
    }
}

nonisolated extension ContiguousArray<FluxRoutes.Guard> {
    /// Adds one in its place, found by bisection, unless it is there.
    fileprivate mutating func fluxAdd(_ guarded: FluxRoutes.Guard) {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            let isBefore = (guarded.priority, self[middle].id) < (self[middle].priority, guarded.id)
            if isBefore { low = middle + 1 } else { high = middle }
        }
        if low < count && self[low].id == guarded.id { return }
        insert(guarded, at: low)
    }
}
