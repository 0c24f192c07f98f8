import Synchronization

/// A core of any type of state.
@usableFromInline typealias FluxAnyCore = any FluxResiding

/// What one dispatcher or one store has in the way of its actions, and who looks on.
///
/// Tokens keep it, and nobody refers to its owner weakly: each retain of an object that somebody does costs four times as
/// much.
@usableFromInline
nonisolated final class FluxPipeline: Sendable {
    private struct Machine {
        var stations = FluxRanks<FluxStation>()
        var hooks = FluxRanks<any FluxHooks>()
        /// Both as they are now; an action under way keeps the one that it began with.
        var chain = FluxChain.empty
        /// Sets the bits of the owner, which is not kept; nil once that is gone.
        var mark: (@Sendable (_ bits: UInt8) -> Void)?

        mutating func renew() {
            chain = FluxChain(stations: stations.elements, hooks: hooks.elements)
            mark?((stations.isEmpty ? 0 : FluxDetours.middleware) | (hooks.isEmpty ? 0 : FluxDetours.hooks))
        }
    }

    private let lock = FluxLock(Machine())

    var chain: FluxChain { lock.withLock { $0.chain } }
    var isEmpty: Bool { lock.withLock { $0.stations.isEmpty } }

    /// Says how to set the bits of the owner, which must close it before it goes.
    func open(_ mark: @escaping @Sendable (_ bits: UInt8) -> Void) {
        lock.withLock { $0.mark = mark }
    }

    /// Lets go of everything, and of the owner.
    func close() {
        let removed = change { machine in
            machine.mark = nil
            _ = machine.hooks.removeAll { _ in true }
            return machine.stations.removeAll { _ in true }
        }
        withExtendedLifetime(removed) {}
    }

    func add(_ station: FluxStation, priority: Int) -> UInt64 {
        change { $0.stations.add(station, priority: priority) }
    }

    /// Gives a worker a place, or another one if it has one here; returns the id of the place.
    ///
    /// The caller has a lock and lets go of the old chain without: it may be the last to know somebody.
    func place(_ station: FluxStation, priority: Int, keeping old: inout ContiguousArray<FluxChain>) -> UInt64 {
        lock.withLock { machine in
            old.append(machine.chain)
            defer { machine.renew() }
            // The same station: one that is detached later passes by what is under way in the old chain too.
            let known = machine.stations.removeAll { $0.worker === station.worker }.first
            return machine.stations.add(known ?? station, priority: priority)
        }
    }

    func add(_ hooks: any FluxHooks) -> UInt64 {
        change { $0.hooks.add(hooks, priority: 0) }
    }

    func remove(_ id: UInt64) {
        change { $0.stations.remove(id) }?.retire()
    }

    /// Removes the stations that are unwanted; returns how many.
    func remove(where isUnwanted: (FluxStation) -> Bool) -> Int {
        let removed = change { $0.stations.removeAll(where: isUnwanted) }
        for station in removed { station.retire() }
        return removed.count
    }

    func removeHooks(_ id: UInt64) {
        _ = change { $0.hooks.remove(id) }
    }

    private func change<Result>(_ body: (inout Machine) -> Result) -> Result {
        let (result, old) = lock.withLock { machine in
            let old = machine.chain
            let result = body(&machine)
            machine.renew()
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

    /// Inlined by force, as all that hands on an action on a watched path: a function that is not gets the action opened
    /// and boxed again on its way in, at 5 ns each.
    @usableFromInline @inline(__always)
    func tellDispatched(_ action: any FluxAction, on thread: UnsafeMutablePointer<FluxThread>) {
        if hooks.isEmpty { return }
        let id = thread.pointee.origin
        let origin = id == 0 ? nil : FluxOrigin(id: id)
        forEach { $0.dispatched(action, origin: origin) }
    }

    /// Tells that an event was fired; returns the id that its actions carry.
    @usableFromInline
    func tellFired(_ event: any FluxEvent) -> UInt64 {
        let id = FluxOrigin.make()
        forEach { $0.fired(event, origin: FluxOrigin(id: id)) }
        return id
    }

    func tellRetried(_ event: any FluxEvent, attempt: Int, error: any Error, origin: UInt64) {
        let origin = FluxOrigin(known: origin)
        forEach { $0.retried(event, attempt: attempt, error: error, origin: origin) }
    }

    func tellFailed(_ event: any FluxEvent, error: any Error, origin: UInt64) {
        let origin = FluxOrigin(known: origin)
        forEach { $0.failed(event, error: error, origin: origin) }
    }

    @usableFromInline @inline(__always)
    func tellApplied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in nanoseconds: UInt64) {
        let duration = Swift.Duration.nanoseconds(Int64(nanoseconds))
        forEach { $0.applied(action, to: store, revision: revision, in: duration) }
    }

    @inline(__always)
    private func forEach(_ body: (any FluxHooks) -> Void) {
        hooks.withUnsafeBufferPointer { hooks in
            for index in hooks.indices { body(hooks[index]) }
        }
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
        if Middleware.Action.self == (any FluxAction).self {
            body = { action, next in
                // With the cast the existential itself is meant, not what it holds.
                middleware.handle(
                    action: unsafeBitCast(action as any FluxAction, to: Middleware.Action.self), next: next)
                return true
            }
        } else if Middleware.Action.self is any FluxAction.Type {
            // Asked for by type before: no need to look it up a second time.
            @Sendable func open<Action: FluxAction>(_ action: Action, _ next: FluxNext) {
                middleware.handle(action: unsafeBitCast(action, to: Middleware.Action.self), next: next)
            }
            body = { action, next in
                open(action, next)
                return true
            }
        } else {
            body = { action, next in
                guard let action = action as? Middleware.Action else { return false }
                middleware.handle(action: action, next: next)
                return true
            }
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
