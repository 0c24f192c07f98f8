#if canImport(FluxCore)
    import FluxCore
#endif

/// The tasks that wait for a count to reach a number: a pure state machine.
nonisolated struct FluxCounts {
    /// The lowest count is last.
    private var waiters: ContiguousArray<(count: Int, latch: FluxLatch)> = []

    /// Adds a waiter; returns nil if the count has been reached already.
    mutating func wait(for count: Int, of current: Int, _ latch: FluxLatch) -> FluxLatch? {
        if current >= count { return nil }
        waiters.insert((count, latch), at: waiters.lastIndex { $0.count >= count }.map { $0 + 1 } ?? 0)
        return latch
    }

    /// Removes a waiter; returns false if it has been notified already.
    mutating func withdraw(_ latch: FluxLatch) -> Bool {
        guard let place = waiters.firstIndex(where: { $0.latch === latch }) else { return false }
        waiters.remove(at: place)
        return true
    }

    /// Removes the waiters whose count has been reached; their latches have to be opened outside the lock.
    mutating func tell(_ current: Int) -> ContiguousArray<FluxLatch> {
        let place = waiters.lastIndex { $0.count > current }.map { $0 + 1 } ?? 0
        defer { waiters.removeSubrange(place...) }
        return ContiguousArray(waiters[place...].map(\.latch))
    }
}

/// The error for an awaited number that was not reached in time.
///
/// Thread safety: a value.
nonisolated public struct FluxTestTimeout: Swift.Error, CustomStringConvertible {
    /// One sentence that says what was awaited, and what there is instead.
    public let description: String

    /// Waits until the number is reached or the time is over; throws an error that says what there is instead.
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
            // Both results count, because the number may be reached just as the time ends.
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

/// Sleeps for a duration, or until the task is cancelled.
///
/// Sleeps for a century at most: the system's clocks stop the program if they are given more than they can represent.
nonisolated func fluxSleep(_ duration: Swift.Duration, on clock: some _Concurrency.Clock<Swift.Duration>) async {
    try? await clock.sleep(for: Swift.max(.zero, Swift.min(duration, .seconds(Int64(3_000_000_000)))))
}
