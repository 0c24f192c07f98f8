/// The way of an action into one store, without its types; also the place of the store in the routes of a dispatcher.
@usableFromInline
nonisolated final class FluxRoute: Sendable {
    /// Applies the action at an address to a target of the right type; true if it announced a change.
    ///
    /// It captures nothing: made where the client's types are known, it is the specialised code itself.
    @usableFromInline typealias Apply =
        @Sendable (_ target: AnyObject, _ action: UnsafeRawPointer, _ wakes: inout FluxWakes<FluxWake>) -> Bool

    /// The core of the store.
    fileprivate let target: any AnyObject & Sendable
    fileprivate let apply: Apply
    let type: ObjectIdentifier
    let id: UInt64

    fileprivate init(target: any AnyObject & Sendable, apply: @escaping Apply, type: ObjectIdentifier, id: UInt64) {
        self.target = target
        self.apply = apply
        self.type = type
        self.id = id
    }
}

/// What the lock of a dispatcher guards: per action type, the stores that take it, in the order of attachment.
nonisolated struct FluxRoutes {
    private var routes: ContiguousArray<FluxSlots<Unmanaged<FluxRoute>>> = []
    private var positions: [ObjectIdentifier: Int] = [:]
    private var lastID: UInt64 = 0
    /// The type of the last dispatch and its position: most dispatches in a row are of one type.
    private var recent: (type: ObjectIdentifier, position: Int)?

    mutating func attach(
        _ type: ObjectIdentifier,
        _ target: any AnyObject & Sendable,
        apply: @escaping FluxRoute.Apply
    ) -> FluxRoute {
        lastID += 1
        let route = FluxRoute(target: target, apply: apply, type: type, id: lastID)
        if let position = position(of: type) {
            routes[position].insert(.passRetained(route), id: lastID)
        } else {
            positions[type] = routes.count
            routes.append(FluxSlots())
            routes[routes.count - 1].insert(.passRetained(route), id: lastID)
        }
        return route
    }

    /// Takes a route out; the caller has to release it, outside the lock.
    mutating func detach(_ route: FluxRoute) -> Unmanaged<FluxRoute>? {
        guard let position = position(of: route.type) else { return nil }
        return routes[position].remove(id: route.id)
    }

    mutating func dispatch(
        _ action: UnsafeRawPointer,
        type: ObjectIdentifier,
        waking wakes: inout FluxWakes<FluxWake>
    ) -> Int {
        guard let position = position(of: type) else { return 0 }
        var announced = 0
        routes[position].forEach { route in
            // The slots hold the route, so none is retained here: this loop is the whole cost of a dispatch.
            route._withUnsafeGuaranteedRef { route in
                if route.apply(route.target, action, &wakes) { announced += 1 }
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
