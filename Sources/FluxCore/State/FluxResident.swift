import Synchronization

/// What a store needs once it has a name, a priority, middleware, reactions or hooks, or moves; few do.
@usableFromInline
nonisolated final class FluxResident: Sendable {
    /// Where the store is attached.
    private struct Membership {
        var dispatcher: FluxDispatcher?
        var priority = 0
        var lastReaction: UInt64 = 0
        /// For the store's own actions first, then for each that it reacts to.
        var places: [(action: ObjectIdentifier, id: UInt64)]
    }

    /// Leads to the state's own `handle`.
    let main: FluxEntrance
    let pipeline = FluxPipeline()
    /// Taken before the lock of a dispatcher.
    private let membership: FluxLock<Membership>
    /// Taken after any other.
    private let reactions = FluxLock<ContiguousArray<(id: UInt64, entrance: FluxEntrance)>>([])
    /// The dispatcher the store is attached to, for those who hold any other lock.
    private let place = FluxLock<FluxDispatcher?>(nil)
    private let title = FluxLock<String?>(nil)
    let books = FluxLock<ContiguousArray<any AnyObject & Sendable>>([])
    let stamps = FluxLock(FluxStamps())

    init(
        main: FluxEntrance, dispatcher: FluxDispatcher?, id: UInt64,
        mark: @escaping @Sendable (UInt8) -> Void
    ) {
        self.main = main
        pipeline.open(mark)
        membership = FluxLock(Membership(dispatcher: dispatcher, places: dispatcher == nil ? [] : [(main.action, id)]))
        place.withLock { $0 = dispatcher }
    }

    @usableFromInline var chain: FluxChain { pipeline.chain }
    var name: String? { title.withLock { $0 } }
    var home: FluxDispatcher? { place.withLock { $0 } }

    // MARK: - Applying

    func entrance(of action: any FluxAction) -> FluxEntrance? {
        entrance(of: ObjectIdentifier(Swift.type(of: action)))
    }

    func entrance(of type: ObjectIdentifier) -> FluxEntrance? {
        main.action == type ? main : reactions.withLock { $0.first { $0.entrance.action == type }?.entrance }
    }

    /// Applies an action that has passed all middleware to the store alone.
    func apply(_ action: any FluxAction, to core: FluxAnyCore, by dispatcher: FluxDispatcher?) {
        guard let entrance = entrance(of: action) else { return }
        let thread = FluxThreads.shared.current
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        let chain = dispatcher?.chainIfWatched
        var watch = FluxWatch(wantsStates: thread.pointee.report != nil)
        let revision = withUnsafeMutablePointer(to: &watch) { watch in
            if watch.pointee.wantsStates || chain != nil { passage.watch = watch }
            return entrance.apply(action, to: core, waking: &wakes, through: &passage)
        }
        thread.pointee.tally.add(revision)
        passage.finish(wakes, chain)
    }

    /// Dispatches an action to the store, past its middleware; returns the revision that announces it.
    @usableFromInline
    func dispatch(_ action: any FluxAction, to core: FluxAnyCore) -> UInt64? {
        let chain = pipeline.chain
        let thread = FluxThreads.shared.current
        let origin = thread.pointee.origin
        let tally = thread.tally {
            chain.tellDispatched(action, on: thread)
            FluxNext(chain, to: .store(core, self, nil), origin: origin).proceed(action)
        }
        return tally.revision == 0 ? nil : tally.revision
    }

    // MARK: - Where it is attached

    @usableFromInline
    func move(
        _ core: FluxAnyCore, to dispatcher: FluxDispatcher, as name: String?, priority: Int
    ) throws(FluxNameTaken) {
        fluxStopInsideHandle("attach")
        // The old dispatcher comes out of the lock too: this may be the last reference to it and to its middleware.
        let (holder, old) = membership.withLock { membership -> (FluxStoreInfo?, Membership) in
            let old = membership
            let holder = move(core, to: dispatcher, as: name, priority: priority, &membership)
            return (holder, old)
        }
        if let name, let holder { throw FluxNameTaken(name: name, holder: holder) }
        withExtendedLifetime(old) {}
    }

    /// Returns who has the name, if another store has; then nothing has changed.
    private func move(
        _ core: FluxAnyCore, to dispatcher: FluxDispatcher, as name: String?, priority: Int,
        _ membership: inout Membership
    ) -> FluxStoreInfo? {
        let (old, oldName) = (membership, self.name)
        let isHere = old.dispatcher === dispatcher
        let entrances = [main] + reactions.withLock { $0.map(\.entrance) }
        var released: ContiguousArray<Unmanaged<AnyObject>?> = []
        // In one step where it stays on its dispatcher, so that no action misses it.
        let holder = dispatcher.routes.withLock { routes -> FluxStoreInfo? in
            if let name, let holder = routes.holder(of: name), holder.core !== core {
                return holder.resident.info(of: holder.core)
            }
            if isHere {
                for place in old.places { released.append(routes.detach(action: place.action, id: place.id)) }
                if let oldName { routes.unname(oldName, of: core) }
            }
            (membership.dispatcher, membership.priority, membership.places) = (dispatcher, priority, [])
            for entrance in entrances {
                membership.places.append((entrance.action, routes.attach(core, entrance, priority: priority)))
            }
            if let name { routes.name(core, self, name) }
            guardPlaces(membership, core, in: &routes)
            dispatcher.markGuards(routes)
            return nil
        }
        if let holder { return holder }
        for core in released { core?.release() }
        place.withLock { $0 = dispatcher }
        if !isHere { old.dispatcher?.detach(old.places, of: core, name: oldName) }
        title.withLock { $0 = name }
        return nil
    }

    /// Takes the store out of its dispatcher, if that is the one; with nil, whichever it is.
    @usableFromInline @discardableResult
    func leave(_ core: FluxAnyCore, from dispatcher: FluxDispatcher?) -> Bool {
        fluxStopInsideHandle("detach")
        // The dispatcher comes out of the lock too: this may be the last reference to it and to its middleware.
        let (wasIn, home) = membership.withLock { membership -> (Bool, FluxDispatcher?) in
            guard let home = membership.dispatcher, dispatcher == nil || home === dispatcher else {
                return (false, nil)
            }
            let wasIn = home.detach(membership.places, of: core, name: name)
            (membership.dispatcher, membership.priority, membership.places) = (nil, 0, [])
            place.withLock { $0 = nil }
            title.withLock { $0 = nil }
            return (wasIn, home)
        }
        withExtendedLifetime(home) {}
        return wasIn
    }

    func info(of core: FluxAnyCore) -> FluxStoreInfo {
        FluxStoreInfo(core: core, stateType: main.state)
    }

    // MARK: - What it does besides

    /// Adds middleware, and sees that actions that come by way of the dispatcher pass it.
    @usableFromInline
    func add(_ station: FluxStation, priority: Int, to core: FluxAnyCore) -> UInt64 {
        let id = pipeline.add(station, priority: priority)
        membership.withLock { membership in
            guard let dispatcher = membership.dispatcher else { return }
            dispatcher.routes.withLock { routes in
                guardPlaces(membership, core, in: &routes)
                dispatcher.markGuards(routes)
            }
        }
        return id
    }

    /// Removes middleware; with the last of it, actions that come by way of the dispatcher go the short way again.
    func remove<Result>(_ removal: (FluxPipeline) -> Result) -> Result {
        fluxStopInsideHandle("remove")
        let result = removal(pipeline)
        membership.withLock { membership in
            guard pipeline.isEmpty, let dispatcher = membership.dispatcher else { return }
            dispatcher.routes.withLock { routes in
                for (action, id) in membership.places { routes.removeGuard(action: action, id: id) }
                dispatcher.markGuards(routes)
            }
        }
        return result
    }

    private func guardPlaces(_ membership: Membership, _ core: FluxAnyCore, in routes: inout FluxRoutes) {
        if pipeline.isEmpty { return }
        for (action, id) in membership.places {
            routes.add(.init(id: id, priority: membership.priority, core: core, resident: self), action: action)
        }
    }

    /// Lets the store react to another type of action; returns what to remove it by, nil if it reacts to that already.
    @usableFromInline
    func add(_ entrance: FluxEntrance, to core: FluxAnyCore) -> UInt64? {
        fluxStopInsideHandle("on(_:)")
        return membership.withLock { membership in
            if self.entrance(of: entrance.action) != nil { return nil }
            membership.lastReaction += 1
            let id = membership.lastReaction
            reactions.withLock { $0.append((id, entrance)) }
            guard let dispatcher = membership.dispatcher else { return id }
            dispatcher.routes.withLock { routes in
                let place = routes.attach(core, entrance, priority: membership.priority)
                membership.places.append((entrance.action, place))
                guardPlaces(membership, core, in: &routes)
                dispatcher.markGuards(routes)
            }
            return id
        }
    }

    @usableFromInline
    func remove(_ reaction: UInt64) {
        fluxStopInsideHandle("remove")
        // Out of the lock with it: it is the user's.
        let entrance = membership.withLock { membership -> FluxEntrance? in
            guard let entrance = reactions.withLock({ $0.first { $0.id == reaction }?.entrance }) else { return nil }
            let places = membership.places.filter { $0.action == entrance.action }
            membership.places.removeAll { $0.action == entrance.action }
            membership.dispatcher?.detach(places)
            reactions.withLock { $0.removeAll { $0.id == reaction } }
            return entrance
        }
        withExtendedLifetime(entrance) {}
    }

    /// Takes the store out of its dispatcher for good, and lets go of all that is the user's.
    func end(_ core: FluxAnyCore) {
        leave(core, from: nil)
        pipeline.close()
        let ended = reactions.withLock { reactions in
            defer { reactions = [] }
            return reactions
        }
        withExtendedLifetime(ended) {}
    }
}
