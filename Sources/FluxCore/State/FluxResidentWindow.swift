import Synchronization

/// Who looks on at what a store does.
nonisolated extension FluxResident {
    /// The histories that record what the store applies.
    @usableFromInline var histories: ContiguousArray<any AnyObject & Sendable> { books.withLock { $0 } }

    /// Changes who records, and marks the store under the same lock.
    func changeHistories(
        _ detours: borrowing Synchronization.Atomic<UInt8>,
        _ body: (inout ContiguousArray<any AnyObject & Sendable>) -> Void
    ) {
        books.withLock { books in
            body(&books)
            detours.fluxSet(books.isEmpty ? 0 : FluxDetours.history, of: FluxDetours.history)
        }
    }

    /// Notes when a change was announced.
    @usableFromInline
    func stamp(_ revision: UInt64, at moment: UInt64) {
        stamps.withLock { $0.put(revision, moment) }
    }

    @usableFromInline
    func tellDelivered(_ core: FluxAnyCore, revision: UInt64, count: Int) {
        let delay = stamps.withLock { $0.moment(of: revision) }.map {
            Swift.Duration.nanoseconds(Int64(fluxNow() - $0))
        }
        let info = info(of: core)
        for hooks in pipeline.chain.hooks { hooks.delivered(revision: revision, count: count, by: info, after: delay) }
    }

    @usableFromInline
    func tellDropped(_ core: FluxAnyCore, count: Int) {
        let info = info(of: core)
        for hooks in pipeline.chain.hooks { hooks.dropped(count, by: info) }
    }
}

/// When the latest changes were announced: a pure state machine with room for 64.
nonisolated struct FluxStamps {
    private var ring: ContiguousArray<(revision: UInt64, moment: UInt64)> = []

    mutating func put(_ revision: UInt64, _ moment: UInt64) {
        if ring.isEmpty { ring = .init(repeating: (0, 0), count: 64) }
        ring[Int(revision % 64)] = (revision, moment)
    }

    func moment(of revision: UInt64) -> UInt64? {
        if ring.isEmpty { return nil }
        let entry = ring[Int(revision % 64)]
        return entry.revision == revision ? entry.moment : nil
    }
}
