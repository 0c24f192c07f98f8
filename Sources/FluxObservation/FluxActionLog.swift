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

    private struct Table {
        /// In the order added, which is also the order of delivery; empty forever once the last reader has ended.
        var readers: ContiguousArray<Reader>
        /// The identities of their deliveries: searching these, among thousands, takes a hundredth of the time.
        var ids: ContiguousArray<ObjectIdentifier>
    }

    private let table: FluxLock<Table>
    private var all: ContiguousArray<Reader> { table.withLock { $0.readers } }

    init(_ first: Reader) {
        table = FluxLock(Table(readers: [first], ids: [ObjectIdentifier(first.delivery)]))
    }

    /// Adds a reader; returns false if the last reader has ended.
    func add(_ reader: Reader) -> Bool {
        table.withLock { table in
            if table.readers.isEmpty { return false }
            table.readers.append(reader)
            table.ids.append(ObjectIdentifier(reader.delivery))
            return true
        }
    }

    /// Removes a reader; returns true if none is left.
    func remove(_ delivery: any FluxReceiverDelivery) -> Bool {
        let (gone, isOver) = table.withLock { table in
            let index = table.ids.firstIndex(of: ObjectIdentifier(delivery))
            let gone = index.map { (table.ids.remove(at: $0), table.readers.remove(at: $0)) }
            return (gone, table.readers.isEmpty)
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
