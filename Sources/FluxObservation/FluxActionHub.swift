import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// Who is told of the actions of all stores of a dispatcher.
nonisolated protocol FluxActionLogging: FluxCancellable {
    /// Tells of the actions of a store from now on; called under the lock of a dispatcher.
    func attached<State>(_ handle: FluxStoreHandle<State>)
    func detached<State>(_ handle: FluxStoreHandle<State>)
    /// The dispatcher was let go of.
    func end()
    /// How it is taken out of the hub again.
    var link: FluxTapLink { get }
}

/// Knows the stores of a dispatcher, once somebody subscribes to actions, and who subscribes.
///
/// A feature of the dispatcher, and not that itself: a weak reference to a dispatcher would make each dispatch slower.
nonisolated final class FluxActionHub: FluxDispatcherObserver {
    private struct Known {
        var stores: [ObjectIdentifier: FluxStoreInfo] = [:]
        var logs = FluxList<any FluxActionLogging>()
        var lastID: UInt64 = 0
    }

    private let known = FluxLock(Known())
    private let hasStarted = FluxLock(false)

    deinit {
        known.withLock { $0.logs.removeAll() }.forEach { $0.end() }
    }

    /// Looks on at the dispatcher, once; who comes second waits until all stores are known, or it would miss their actions.
    func start(_ dispatcher: FluxDispatcher) {
        hasStarted.withLock { hasStarted in
            if !hasStarted { dispatcher.observe(self) }
            hasStarted = true
        }
    }

    func add(_ log: any FluxActionLogging) -> FluxSubscription {
        let id = known.withLock { known in
            known.lastID += 1
            known.logs.insert(log, id: known.lastID)
            for store in known.stores.values { Self.tell(log, store) }
            return known.lastID
        }
        log.link.put { [weak self] in self?.remove(id) }
        return FluxSubscription(log)
    }

    private static func tell(_ log: any FluxActionLogging, _ store: FluxStoreInfo) {
        func open<State: FluxState>(_ type: State.Type) {
            if let handle = store.handle(of: type) { log.attached(handle) }
        }
        open(store.stateType)
    }

    private func remove(_ id: UInt64) {
        // Let go of outside the lock.
        let log = known.withLock { $0.logs.remove(id: id) }
        withExtendedLifetime(log) {}
    }

    func attached<State>(_ handle: FluxStoreHandle<State>) {
        known.withLock { known in
            known.stores[ObjectIdentifier(handle)] = FluxStoreInfo(handle)
            known.logs.updateEach { $0.attached(handle) }
        }
    }

    func detached<State>(_ handle: FluxStoreHandle<State>) {
        known.withLock { known in
            known.stores[ObjectIdentifier(handle)] = nil
            known.logs.updateEach { $0.detached(handle) }
        }
    }
}

/// One subscription to the actions of a dispatcher: it looks on at each store, and delivers in one order.
nonisolated final class FluxActionLog<Element: Sendable>: FluxActionLogging {
    /// Looks on at one store.
    private struct Watch {
        let remove: @Sendable () -> Void
    }

    let link = FluxTapLink()
    private let delivery: FluxQueueDelivery<Element>
    private let take: @Sendable (FluxAppliedAction<any FluxAction>) -> Element?
    /// Nil once it is over.
    private let watches = FluxLock<[ObjectIdentifier: Watch]?>([:])

    init(
        _ delivery: FluxQueueDelivery<Element>,
        _ take: @escaping @Sendable (FluxAppliedAction<any FluxAction>) -> Element?
    ) {
        (self.delivery, self.take) = (delivery, take)
    }

    func attached<State>(_ handle: FluxStoreHandle<State>) {
        // Moved between dispatchers that are both looked on at, it is here already.
        if watches.withLock({ $0?[ObjectIdentifier(handle)] != nil }) { return }
        let (store, delivery, take) = (FluxStoreInfo(handle), delivery, take)
        let observer = FluxTapObserver<State>(delivery, endsWithStore: false) { change, _, revision in
            if case .replaced = change { return nil }
            let applied = FluxAppliedAction(action: change.action, revision: revision, store: store)
            return take(applied).flatMap { delivery.put($0) }
        }
        let watch = Watch { handle.withAccess { $0.remove(observer) } }
        handle.withAccess { $0.observe(observer) }
        let isOver = watches.withLock { watches in
            watches?[ObjectIdentifier(handle)] = watch
            return watches == nil
        }
        if isOver { watch.remove() }
    }

    func detached<State>(_ handle: FluxStoreHandle<State>) {
        watches.withLock { $0?.removeValue(forKey: ObjectIdentifier(handle)) }?.remove()
    }

    func end() {
        delivery.end()
        removeAll()
    }

    func cancel() {
        delivery.cancel()
        link.cut()
        removeAll()
    }

    private func removeAll() {
        // What is let go of with some lock held is taken out once there is none.
        if FluxPureCode.isRunning { return DispatchQueue.global().async { self.removeAll() } }
        let all = watches.withLock { watches in
            defer { watches = nil }
            return watches
        }
        all?.values.forEach { $0.remove() }
    }

    func finish() async {
        cancel()
        await delivery.finish()
    }
}
