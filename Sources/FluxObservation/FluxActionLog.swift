#if canImport(FluxCore)
    import FluxCore
#endif

/// The subscriptions to the actions of a dispatcher, as its feature.
nonisolated final class FluxActionLogs: Sendable {
    private let current = FluxLock<FluxActionLog?>(nil)

    /// Has the log tell one more, and another log look on at the stores where the last subscription has ended.
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

/// What looks on at each store of a dispatcher, once for all subscriptions to its actions, until the last of them ends.
nonisolated final class FluxActionLog: FluxDispatcherObserver {
    let readers: FluxActionReaders
    /// What ends the look at each store; nil once it is over.
    private let watches = FluxLock<[FluxStoreInfo: FluxSubscription]?>([:])

    init(_ reader: FluxActionReaders.Reader) { readers = FluxActionReaders(reader) }

    /// The dispatcher was let go of, or another takes the place of this, which is over.
    deinit { readers.endAll() }

    func token(of delivery: any FluxReceiverDelivery) -> FluxSubscription {
        let feed = FluxFeed()
        feed.stops { [weak self] in self?.remove(delivery) }
        return FluxSubscription([delivery.token, feed.token])
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

/// To whom each store of a dispatcher hands what it applies.
nonisolated final class FluxActionReaders: FluxReceiverDelivery {
    typealias Reader = FluxReceiver<FluxAppliedAction<any FluxAction>>

    private struct Table {
        /// In the order added, and so told; once the last has ended it stays empty.
        var readers: ContiguousArray<Reader>
        /// The deliveries of these: to look for one among thousands takes a hundredth of the time.
        var ids: ContiguousArray<ObjectIdentifier>
    }

    private let table: FluxLock<Table>
    private var all: ContiguousArray<Reader> { table.withLock { $0.readers } }

    init(_ first: Reader) {
        table = FluxLock(Table(readers: [first], ids: [ObjectIdentifier(first.delivery)]))
    }

    /// False: the last has ended.
    func add(_ reader: Reader) -> Bool {
        table.withLock { table in
            if table.readers.isEmpty { return false }
            table.readers.append(reader)
            table.ids.append(ObjectIdentifier(reader.delivery))
            return true
        }
    }

    /// Takes one out; true: it was the last.
    func remove(_ delivery: any FluxReceiverDelivery) -> Bool {
        let (gone, isOver) = table.withLock { table in
            let index = table.ids.firstIndex(of: ObjectIdentifier(delivery))
            let gone = index.map { (table.ids.remove(at: $0), table.readers.remove(at: $0)) }
            return (gone, table.readers.isEmpty)
        }
        // Let go of outside the lock.
        return withExtendedLifetime(gone) { isOver }
    }

    func put(_ applied: FluxAppliedAction<any FluxAction>) -> (any FluxSettling)? {
        let due = all.compactMap { $0.put(applied, true) }
        return due.count < 2 ? due.first : FluxWakesOfMany(due)
    }

    func endAll() { for reader in all { reader.delivery.end() } }

    // MARK: - As the delivery of each look at a store

    /// A store that goes ends none: the others go on.
    func end() {}

    func flush() async { for reader in all { await reader.delivery.flush() } }

    /// It is ended by the tokens of all.
    var token: FluxSubscription { FluxSubscription([]) }
}

/// Whom one change wakes of several.
nonisolated private final class FluxWakesOfMany: FluxSettling {
    private let all: [any FluxSettling]

    init(_ all: [any FluxSettling]) { self.all = all }

    func settle() { for one in all { one.settle() } }
}
