/// What became of the events of a creator, by count.
///
/// Events that were fired together and share a conversion end as one: where that was cancelled they all count as cancelled, also
/// those whose actions had been applied.
///
/// Thread safety: a value.
nonisolated public struct FluxShutdown: Sendable, Equatable {
    /// Those that ran to their end.
    public internal(set) var completed = 0
    /// Those whose conversion threw, and was not to be tried again.
    public internal(set) var failed = 0
    /// Those that were cancelled, by hand, by a scheduler or at the deadline.
    public internal(set) var cancelled = 0
    /// Those that never started: refused by a scheduler, or fired after the shutdown had begun.
    public internal(set) var dropped = 0
    /// Those whose last action was being dispatched, or whose end or retry was being told, when the shutdown returned; they end on
    /// their own.
    public internal(set) var unfinished = 0

    mutating func count(_ outcome: FluxTask.Outcome, _ events: Int) {
        switch outcome {
        case .completed: completed += events
        case .failed: failed += events
        case .cancelled: cancelled += events
        case .dropped: dropped += events
        }
    }
}

/// Keeps account of the events of a creator: those in flight, how many ended how, and who waits for that.
///
/// It knows no types of the client's, so all of it is compiled once.
@usableFromInline nonisolated final class FluxCreatorAccount: Sendable {
    private struct Table {
        /// Those in flight, in the order of their ids.
        var tasks = FluxList<FluxTask>()
        /// What became of the others; those in flight are the unfinished.
        var counts = FluxShutdown()
        var isShutDown = false
    }

    let clock: any _Concurrency.Clock<Swift.Duration>
    /// The creator's own serial queue: `DispatchQueue.main` does not run in every program.
    let queue = fluxQueue("FluxActionCreator")
    private let table = FluxLock(Table())

    @usableFromInline init(clock: any _Concurrency.Clock<Swift.Duration>) { self.clock = clock }

    /// Makes the task of so many events; it is dropped if the creator was shut down.
    @usableFromInline func admit(_ count: Int) -> FluxTask {
        // Made outside the lock, which is held for a fifth of the time so; where two threads fire at once, either comes first.
        let task = FluxTask(self, count: count)
        let isOpen = table.withLock { table in
            if table.isShutDown { return false }
            table.tasks.insert(task, id: task.id)
            table.counts.unfinished += count
            return true
        }
        if !isOpen { task.end(.dropped) }
        return task
    }

    /// Counts a task whose outcome is known, under the lock of that.
    func settled(_ task: FluxTask, _ outcome: FluxTask.Outcome) {
        table.withLock { table in
            if table.tasks.remove(id: task.id) != nil { table.counts.unfinished -= task.count }
            table.counts.count(outcome, task.count)
        }
    }

    // MARK: - Overseeing

    var inFlight: Int {
        FluxPureCode.forbid("inFlight")
        return table.withLock { $0.counts.unfinished }
    }

    func cancelAll() {
        FluxPureCode.forbid("cancelAll()")
        // The last first: the end of one that runs must not start those that wait for it.
        for (_, task) in table.withLock({ $0.tasks.pairs() }).reversed() { task.end(.cancelled) }
    }

    @discardableResult func flush() async -> Bool {
        // Most end in the order fired: then the newest is the only one to wait for, and none of those before it is left.
        guard let newest = table.withLock({ $0.tasks.last }) else { return true }
        if await newest.settled() == nil { return false }
        for (_, task) in table.withLock({ $0.tasks.pairs(before: newest.id) }).reversed() {
            if await task.settled() == nil { return false }
        }
        return true
    }

    func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        table.withLock { $0.isShutDown = true }
        _ = await fluxWithin(duration, on: clock) { await self.flush() }
        cancelAll()
        return table.withLock { $0.counts }
    }
}
