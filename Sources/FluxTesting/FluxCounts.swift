#if canImport(FluxCore)
    import FluxCore
#endif

/// Those who wait until there is a number of something: a pure state machine.
nonisolated struct FluxCounts {
    private var waiters = FluxList<(count: Int, latch: FluxLatch)>()
    private var lastID: UInt64 = 0

    /// Adds somebody who waits; nil: there are as many already.
    mutating func wait(for count: Int, of current: Int, _ latch: FluxLatch) -> UInt64? {
        if current >= count { return nil }
        lastID += 1
        waiters.insert((count, latch), id: lastID)
        return lastID
    }

    /// Removes one who waits no longer.
    mutating func withdraw(_ id: UInt64) { waiters.remove(id: id) }

    /// Removes those who wait for no more than there are; they are to be let out outside the lock.
    mutating func tell(_ current: Int) -> ContiguousArray<FluxLatch> {
        ContiguousArray(waiters.removeAll { $0.count <= current }.map(\.latch))
    }
}
