import Synchronization

/// A core of any type of state.
@usableFromInline typealias FluxAnyCore = any AnyObject & Sendable

/// What one dispatcher or one store has in the way of its actions, and who looks on.
@usableFromInline
nonisolated final class FluxPipeline: Sendable {
    private struct Machine {
        var stations = FluxRanks<FluxStation>()
        var hooks = FluxRanks<any FluxHooks>()
        /// Both as they are now; an action under way keeps the one that it began with.
        var chain = FluxChain.empty

        mutating func renew() -> UInt8 {
            chain = FluxChain(stations: stations.elements, hooks: hooks.elements)
            return (stations.isEmpty ? 0 : FluxDetours.middleware) | (hooks.isEmpty ? 0 : FluxDetours.hooks)
        }
    }

    private let lock = FluxLock(Machine())
    /// Sets the bits of the owner; captures nothing that keeps it.
    private let mark: @Sendable (FluxAnyCore, _ bits: UInt8) -> Void

    init(mark: @escaping @Sendable (FluxAnyCore, _ bits: UInt8) -> Void) {
        self.mark = mark
    }

    var chain: FluxChain { lock.withLock { $0.chain } }

    func add(_ station: FluxStation, priority: Int, of owner: FluxAnyCore) -> UInt64 {
        change(of: owner) { $0.stations.add(station, priority: priority) }
    }

    func add(_ hooks: any FluxHooks, of owner: FluxAnyCore) -> UInt64 {
        change(of: owner) { $0.hooks.add(hooks, priority: 0) }
    }

    func remove(_ id: UInt64, of owner: FluxAnyCore) {
        change(of: owner) { $0.stations.remove(id) }?.retire()
    }

    /// Removes the stations that are unwanted; returns how many.
    func remove(of owner: FluxAnyCore, where isUnwanted: (FluxStation) -> Bool) -> Int {
        let removed = change(of: owner) { $0.stations.removeAll(where: isUnwanted) }
        for station in removed { station.retire() }
        return removed.count
    }

    func removeHooks(_ id: UInt64, of owner: FluxAnyCore) {
        _ = change(of: owner) { $0.hooks.remove(id) }
    }

    private func change<Result>(of owner: FluxAnyCore, _ body: (inout Machine) -> Result) -> Result {
        let (result, old) = lock.withLock { machine in
            let old = machine.chain
            let result = body(&machine)
            mark(owner, machine.renew())
            return (result, old)
        }
        // What was removed is the user's, so it is let go of here, outside the lock.
        withExtendedLifetime(old) {}
        return result
    }
}

/// The middleware and the hooks of one moment; never changed.
@usableFromInline
nonisolated final class FluxChain: Sendable {
    static let empty = FluxChain(stations: [], hooks: [])

    let stations: ContiguousArray<FluxStation>
    let hooks: ContiguousArray<any FluxHooks>

    init(stations: ContiguousArray<FluxStation>, hooks: ContiguousArray<any FluxHooks>) {
        self.stations = stations
        self.hooks = hooks
    }
}

/// One middleware in its place.
@usableFromInline
nonisolated final class FluxStation: Sendable {
    /// The type of the middleware, to remove it by.
    let kind: ObjectIdentifier
    /// The middleware if it is an object, to remove it by.
    let instance: ObjectIdentifier?
    /// The dispatcher that works here, if one does.
    let worker: FluxDispatcher?
    /// The one type of action that it takes; nil if it has to be asked.
    private let type: ObjectIdentifier?
    private let isLive = Synchronization.Atomic<Bool>(true)
    /// Calls the middleware; false if the action is none of its own.
    private let body: @Sendable (any FluxAction, FluxNext) -> Bool

    init<Middleware: FluxMiddleware>(_ middleware: Middleware) {
        kind = ObjectIdentifier(Middleware.self)
        instance = Middleware.self is AnyObject.Type ? ObjectIdentifier(middleware as AnyObject) : nil
        worker = (middleware as? FluxWorker)?.dispatcher
        if let interceptor = middleware as? FluxInterceptor {
            type = interceptor.type
        } else {
            type = Middleware.Action.self is any FluxAction.Type ? ObjectIdentifier(Middleware.Action.self) : nil
        }
        body = { action, next in
            guard let action = action as? Middleware.Action else { return false }
            middleware.handle(action: action, next: next)
            return true
        }
    }

    /// Hands an action to the middleware; false if it passes it by.
    func handle(_ action: any FluxAction, _ next: FluxNext) -> Bool {
        if let type, type != ObjectIdentifier(Swift.type(of: action)) { return false }
        return isLive.load(ordering: .relaxed) && body(action, next)
    }

    /// From here on every action passes it by, those under way too.
    func retire() {
        isLive.store(false, ordering: .releasing)
    }
}

/// A dispatcher as the middleware of another one.
nonisolated struct FluxWorker: FluxMiddleware {
    let dispatcher: FluxDispatcher

    func handle(action: any FluxAction, next: FluxNext) {
        dispatcher.work(on: action, next)
    }
}
