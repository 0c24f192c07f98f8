#if canImport(FluxCore)
    import FluxCore
#endif

/// One subscription to the actions of a dispatcher: it looks on at each store, and delivers in one order.
nonisolated final class FluxActionLog: FluxDispatcherObserver {
    typealias Put = @Sendable (FluxAppliedAction<any FluxAction>) -> (any FluxSettling)?

    private let delivery: any FluxTapDelivery
    private let put: Put
    /// What ends the look at each store; nil once it is over.
    private let watches = FluxLock<[FluxStoreInfo: FluxSubscription]?>([:])

    init(_ delivery: any FluxTapDelivery, _ put: @escaping Put) {
        (self.delivery, self.put) = (delivery, put)
    }

    /// The dispatcher was let go of.
    deinit {
        delivery.end()
    }

    func attached<State>(_ handle: FluxStoreHandle<State>) {
        watches.withLock { watches in
            if watches == nil { return }
            let store = FluxStoreInfo(handle)
            let observer = FluxTapObserver<State>(handle, delivery) { [put] change, _, revision in
                if case .replaced = change { return nil }
                return put(FluxAppliedAction(action: change.action, revision: revision, store: store))
            }
            handle.withAccess { $0.observe(observer) }
            watches?[store] = observer.feed.token
        }
    }

    func detached<State>(_ handle: FluxStoreHandle<State>) {
        watches.withLock { $0?.removeValue(forKey: FluxStoreInfo(handle)) }?.unsubscribe()
    }

    func end() {
        var watches: [FluxStoreInfo: FluxSubscription]?
        self.watches.withLock { swap(&$0, &watches) }
    }
}

/// The subscriptions to the actions of a dispatcher that have ended: the next one to come takes them out of it.
///
/// A feature of the dispatcher, and not that itself: a weak reference to a dispatcher would make each dispatch slower.
nonisolated final class FluxEndedLogs: Sendable {
    let logs = FluxLock<[FluxActionLog]>([])
}
