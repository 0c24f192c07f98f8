/// The way of an action into one store, without its types.
@usableFromInline
struct FluxRoute {
    /// Applies the action at an address to a target of the right type; true if it announced a change.
    ///
    /// It captures nothing: made where the client's types are known, it is the specialised code itself.
    @usableFromInline typealias Apply =
        @Sendable (
            _ target: Unmanaged<AnyObject>, _ action: UnsafeRawPointer, _ wakes: inout FluxWakes<any FluxWakeable>
        ) -> Bool

    /// The core of the store; retained by whoever holds the route.
    let target: Unmanaged<AnyObject>
    let apply: Apply
}

/// What the lock of a dispatcher guards: per action type, the stores that take it, in the order of attachment.
struct FluxRoutes {
    private var routes: ContiguousArray<FluxSlots<FluxRoute>> = []
    private var positions: [ObjectIdentifier: Int] = [:]
    private var lastID: UInt64 = 0
    /// The type of the last dispatch and its position: most dispatches in a row are of one type.
    private var recent: (type: ObjectIdentifier, position: Int)?

    mutating func attach(_ route: FluxRoute, type: ObjectIdentifier) -> UInt64 {
        lastID += 1
        if let position = position(of: type) {
            routes[position].insert(route, id: lastID)
        } else {
            positions[type] = routes.count
            routes.append(FluxSlots())
            routes[routes.count - 1].insert(route, id: lastID)
        }
        return lastID
    }

    mutating func detach(type: ObjectIdentifier, id: UInt64) -> FluxRoute? {
        guard let position = position(of: type) else { return nil }
        return routes[position].remove(id: id)
    }

    mutating func dispatch(
        _ action: UnsafeRawPointer,
        type: ObjectIdentifier,
        waking wakes: inout FluxWakes<any FluxWakeable>
    ) -> Int {
        guard let position = position(of: type) else { return 0 }
        var announced = 0
        routes[position].slots.withUnsafeBufferPointer { slots in
            for slot in slots {
                if let route = slot.element, route.apply(route.target, action, &wakes) { announced += 1 }
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
}
