#if canImport(FluxCore)
    import FluxCore
#endif

/// The subscriptions to the actions of a dispatcher, kept as a feature of it.
nonisolated final class FluxActionLogs: Sendable {
    private let current = FluxLock<FluxActionLog?>(nil)

    /// Adds a reader to the log; if the log's last subscription has ended, a new log observes the stores.
    func add(_ reader: FluxActionReaders.Reader, on dispatcher: FluxDispatcher) -> FluxSubscription {
        var old: FluxActionLog?
        let log = current.withLock { current in
            if let current, current.readers.add(reader) { return current }
            let new = FluxActionLog(reader)
            (old, current) = (current, new)
            if let old { dispatcher.remove(old) }
            dispatcher.observe(new)
            return new
        }
        return log.token(of: reader.delivery)
    }
}

/// Observes each store of a dispatcher, once for all subscriptions to its actions, until the last of them ends.
nonisolated final class FluxActionLog: FluxDispatcherObserver {
    let readers: FluxActionReaders
    /// The tokens that end the observation of each store; nil once the log is over.
    private let watches = FluxLock<[FluxStoreInfo: FluxSubscription]?>([:])

    init(_ reader: FluxActionReaders.Reader) { readers = FluxActionReaders(reader) }

    /// The dispatcher was released, or this log is over and another has replaced it.
    deinit { readers.endAll() }

    func token(of delivery: any FluxReceiverDelivery) -> FluxSubscription {
        FluxSubscription([delivery.token, FluxFeed { [weak self] in self?.remove(delivery) }.token])
    }

    private func remove(_ delivery: any FluxReceiverDelivery) {
        if readers.remove(delivery) { _ = watches.withLock { Swift.exchange(&$0, with: nil) } }
    }

    func attached<State>(_ handle: FluxStoreHandle<State>) {
        watches.withLock { watches in
            if watches == nil { return }
            let store = FluxStoreInfo(handle)
            let observer = FluxReceiverObserver<State>(handle, readers) { [readers] change, _, revision in
                if case .replaced = change { return nil }
                return readers.put(FluxAppliedAction(action: change.action, revision: revision, store: store))
            }
            handle.withAccess { $0.observe(observer, settlesFirst: true) }
            watches?[store] = observer.feed.token
        }
    }

    func detached<State>(_ handle: FluxStoreHandle<State>) {
        watches.withLock { $0?.removeValue(forKey: FluxStoreInfo(handle)) }?.unsubscribe()
    }
}

/// The readers that receive what each store of a dispatcher applies.
nonisolated final class FluxActionReaders: FluxReceiverDelivery {
    typealias Reader = FluxReceiver<FluxAppliedAction<any FluxAction>>

    /// In the order added, which is also the order of delivery; empty forever once the last reader has ended.
    private let readers: FluxLock<ContiguousArray<Reader>>
    private var all: ContiguousArray<Reader> { readers.withLock { $0 } }

    init(_ first: Reader) { readers = FluxLock([first]) }

    /// Adds a reader; returns false if the last reader has ended.
    func add(_ reader: Reader) -> Bool {
        readers.withLock { readers in
            if readers.isEmpty { return false }
            readers.append(reader)
            return true
        }
    }

    /// Removes a reader; returns true if none is left.
    func remove(_ delivery: any FluxReceiverDelivery) -> Bool {
        let (gone, isOver) = readers.withLock { readers in
            let gone = readers.firstIndex { $0.delivery === delivery }.map { readers.remove(at: $0) }
            return (gone, readers.isEmpty)
        }
        // Released outside the lock.
        return withExtendedLifetime(gone) { isOver }
    }

    func put(_ applied: FluxAppliedAction<any FluxAction>) -> (any FluxSettling)? {
        let due = all.compactMap { $0.put(applied, true) }
        return due.count < 2 ? due.first : FluxWakesOfMany(due)
    }

    func endAll() { for reader in all { reader.delivery.end() } }

    // MARK: - As the delivery of each store's observer

    /// Does nothing: when one store ends, the readers continue with the others.
    func end() {}

    func flush() async { for reader in all { await reader.delivery.flush() } }

    /// Ends nothing: each reader is ended by its own token.
    var token: FluxSubscription { FluxSubscription([]) }
}

/// Settles everything that one change has made due for several readers.
nonisolated private final class FluxWakesOfMany: FluxSettling {
    private let all: [any FluxSettling]

    init(_ all: [any FluxSettling]) { self.all = all }

    func settle() { for one in all { one.settle() } }
}
