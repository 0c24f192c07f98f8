#if canImport(FluxCore)
    import FluxCore
#endif

/// Those who wait until there is a number of something: a pure state machine.
nonisolated struct FluxCounts {
    private var waiters: ContiguousArray<(count: Int, latch: FluxLatch)> = []

    /// Adds somebody who waits; nil: there are as many already.
    mutating func wait(for count: Int, of current: Int, _ latch: FluxLatch) -> FluxLatch? {
        if current >= count { return nil }
        waiters.append((count, latch))
        return latch
    }

    /// Removes one who waits no longer.
    mutating func withdraw(_ latch: FluxLatch) { waiters.removeAll { $0.latch === latch } }

    /// Removes those who wait for no more than there are; they are to be let out outside the lock.
    mutating func tell(_ current: Int) -> ContiguousArray<FluxLatch> {
        defer { waiters.removeAll { $0.count <= current } }
        return ContiguousArray(waiters.filter { $0.count <= current }.map(\.latch))
    }
}
