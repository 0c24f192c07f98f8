#if canImport(FluxCore)
    import FluxCore
#endif

/// Those who wait until there is a number of something: a pure state machine.
nonisolated struct FluxCounts {
    /// Those who wait for the least are the last.
    private var waiters: ContiguousArray<(count: Int, latch: FluxLatch)> = []

    /// Adds somebody who waits; nil: there are as many already.
    mutating func wait(for count: Int, of current: Int, _ latch: FluxLatch) -> FluxLatch? {
        if current >= count { return nil }
        waiters.insert((count, latch), at: waiters.lastIndex { $0.count >= count }.map { $0 + 1 } ?? 0)
        return latch
    }

    /// Removes one who waits no longer.
    mutating func withdraw(_ latch: FluxLatch) { waiters.removeAll { $0.latch === latch } }

    /// Removes those who wait for no more than there are; they are to be let out outside the lock.
    mutating func tell(_ current: Int) -> ContiguousArray<FluxLatch> {
        let place = waiters.lastIndex { $0.count > current }.map { $0 + 1 } ?? 0
        defer { waiters.removeSubrange(place...) }
        return ContiguousArray(waiters[place...].map(\.latch))
    }
}
