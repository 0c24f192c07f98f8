#if canImport(FluxCore)
    import FluxCore
#endif

/// What a family knows of one of its stores: whether it never will be saved, and who keeps it for now besides the family.
///
/// When a store is closed nobody may: what is made in its place may need what there is only one of.
nonisolated final class FluxFamilyFate: Sendable {
    private struct Table {
        var isLost = false
        /// Keeps the store until its value is known, and is kept here until the next.
        var look: _Concurrency.Task<Void, Swift.Never>?
        var isLooking = false
        /// How many flush the store.
        var flushes = 0
        var isClosed = false
        /// Who closes it, and waits for them.
        var closer: FluxLatch?
    }

    private let table = FluxLock(Table())

    // MARK: - A store that could not be saved

    var isLost: Bool { table.withLock { $0.isLost } }

    /// Looks at the store, until it is known whether it will be saved.
    func look<State>(at store: FluxStore<State>) {
        table.withLock { table in
            if table.isLooking || table.isLost { return }
            table.isLooking = true
            table.look = _Concurrency.Task.detached { [last = table.look] in
                await last?.value
                let isLost = await Self.isLost(store)
                self.table.withLock { ($0.isLost, $0.isLooking) = (isLost, false) }
            }
        }
    }

    /// A flush of what never will be saved ends all the same.
    private static func isLost<State>(_ store: FluxStore<State>) async -> Bool {
        while true {
            let stamp = store.stamp
            await store.flush()
            let error = await store.handle.failure()
            if error == nil || _Concurrency.Task.isCancelled { return false }
            // What was applied after the flush may fail for now; of what came before all has been written, or never will be.
            if store.stamp == stamp { return true }
        }
    }

    // MARK: - Keeping it

    /// Lets somebody flush the store who keeps it until `leave`; false: it is closed.
    func enter() -> Bool {
        table.withLock { table in
            if !table.isClosed { table.flushes += 1 }
            return !table.isClosed
        }
    }

    func leave() {
        let closer = table.withLock { table in
            table.flushes -= 1
            return table.flushes == 0 ? table.closer : nil
        }
        closer?.open()
    }

    /// Lets nobody keep the store any more, and waits for those who do.
    func close() async {
        let (look, closer) = table.withLock { table in
            table.isClosed = true
            table.closer = table.flushes == 0 ? nil : FluxLatch()
            return (table.look, table.closer)
        }
        look?.cancel()
        await look?.value
        await closer?.wait()
    }
}
