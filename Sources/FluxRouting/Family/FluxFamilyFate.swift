#if canImport(FluxCore)
    import FluxCore
#endif

/// What a family knows about one of its stores: whether it can never be saved, and which tasks retain it temporarily.
///
/// When the store is closed, no task may retain it: its replacement may need the same exclusive resource.
nonisolated final class FluxFamilyFate: Sendable {
    private struct Table {
        var isLost = false
        /// The task that finds out whether the store is lost, and retains the store meanwhile; kept until the next one.
        var look: _Concurrency.Task<Void, Swift.Never>?
        var isLooking = false
        /// How many flushes retain the store.
        var flushes = 0
        /// Nil until the store is closed; opened when the last of these flushes ends, for which the closing task waits.
        var closeLatch: FluxLatch?
    }

    private let table = FluxLock(Table())

    // MARK: - A store that could not be saved

    var isLost: Bool { table.withLock { $0.isLost } }

    /// Watches the store until it is known whether it can still be saved.
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

    /// Returns whether the store can never be saved; a flush of such a store returns all the same.
    private static func isLost<State>(_ store: FluxStore<State>) async -> Bool {
        while true {
            let stamp = store.stamp
            await store.flush()
            let error = await store.handle.failure()
            if error == nil || _Concurrency.Task.isCancelled { return false }
            // A change applied after the flush may have failed only for now. Every change before it has been written,
            // or never will be.
            if store.stamp == stamp { return true }
        }
    }

    // MARK: - Keeping it

    /// Lets a caller retain the store for a flush, until `leave()`; returns false if the store is closed.
    func enter() -> Bool {
        table.withLock { table in
            if table.closeLatch == nil { table.flushes += 1 }
            return table.closeLatch == nil
        }
    }

    func leave() {
        let closeLatch = table.withLock { table in
            table.flushes -= 1
            return table.flushes == 0 ? table.closeLatch : nil
        }
        closeLatch?.open()
    }

    /// Lets no more callers retain the store, and waits for those that do.
    func close() async {
        let (look, closeLatch) = table.withLock { table in
            let closeLatch = FluxLatch()
            table.closeLatch = closeLatch
            return (table.look, table.flushes == 0 ? nil : closeLatch)
        }
        look?.cancel()
        await look?.value
        await closeLatch?.wait()
    }
}
