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

    /// Removes one who waits no longer; false: he was told already.
    mutating func withdraw(_ latch: FluxLatch) -> Bool {
        guard let place = waiters.firstIndex(where: { $0.latch === latch }) else { return false }
        waiters.remove(at: place)
        return true
    }

    /// Removes those who wait for no more than there are; they are to be let out outside the lock.
    mutating func tell(_ current: Int) -> ContiguousArray<FluxLatch> {
        let place = waiters.lastIndex { $0.count > current }.map { $0 + 1 } ?? 0
        defer { waiters.removeSubrange(place...) }
        return ContiguousArray(waiters[place...].map(\.latch))
    }
}

/// What a test waited for has not come in time.
///
/// Thread safety: a value.
nonisolated public struct FluxTestTimeout: Swift.Error, CustomStringConvertible {
    /// One sentence that says what was awaited, and what is there.
    public let description: String

    /// Waits until there were enough, or the time is over; throws what is there instead.
    static func wait<There: Sendable>(
        for count: Int, _ what: String, within limit: Swift.Duration, _ wait: @escaping @Sendable () async -> Bool,
        there: @Sendable () -> [There]
    ) async throws(FluxTestTimeout) {
        let wereThere = await withTaskGroup(of: Bool.self) { group in
            group.addTask { await wait() }
            group.addTask {
                await fluxSleep(limit, on: _Concurrency.ContinuousClock())
                return false
            }
            // Both count: what was awaited may come as the time ends.
            let isFirst = await group.next() == true
            group.cancelAll()
            return await group.next() == true || isFirst
        }
        if wereThere { return }
        let found = there()
        let newest = found.suffix(10).map { "\($0)" }.joined(separator: ", ")
        let list = found.isEmpty ? "" : found.count > 10 ? ", the newest of them \(newest)" : ", \(newest)"
        let end = _Concurrency.Task.isCancelled ? "until the task was cancelled" : "for \(limit)"
        throw FluxTestTimeout(description: "\(what): \(count) awaited \(end), \(found.count) there\(list)")
    }
}

/// Sleeps until a time is over or the task is cancelled.
///
/// For a century at most: more than the clocks of the system can count stops the program.
nonisolated func fluxSleep(_ duration: Swift.Duration, on clock: some _Concurrency.Clock<Swift.Duration>) async {
    try? await clock.sleep(for: Swift.max(.zero, Swift.min(duration, .seconds(Int64(3_000_000_000)))))
}
