/// The number of a creator's events by outcome.
///
/// Events that were fired together and share a conversion end as one. If that conversion was cancelled, all of them
/// count as cancelled, even those whose actions have been applied.
///
/// Thread safety: a value.
nonisolated public struct FluxShutdown: Sendable, Equatable {
    /// Events that ran to their end.
    public internal(set) var completed = 0
    /// Events that failed: their last attempt threw an error, and was not to be retried.
    public internal(set) var failed = 0
    /// Events that were cancelled, by hand, by a scheduler or at the deadline.
    public internal(set) var cancelled = 0
    /// Events that never started: refused by a scheduler, or fired after the shutdown had begun.
    public internal(set) var dropped = 0
    /// Events that had an action being dispatched, or their end or retry being reported, when the shutdown returned.
    ///
    /// They end on their own.
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

/// Counts the events of a creator, in flight and by outcome, and waits for their end.
///
/// It uses none of the client's types, so all of it is compiled once.
@usableFromInline nonisolated final class FluxCreatorAccount: Sendable {
    private struct Table {
        /// The tasks in flight, in the order of their ids.
        var tasks = FluxList<FluxTask>()
        /// The outcomes of the other tasks; those in flight are the unfinished ones.
        var counts = FluxShutdown()
        var isShutDown = false
    }

    let clock: any _Concurrency.Clock<Swift.Duration>
    /// The creator's own serial queue: `DispatchQueue.main` does not run in every program.
    let queue = fluxQueue("FluxActionCreator")
    private let table = FluxLock(Table())

    @usableFromInline init(clock: any _Concurrency.Clock<Swift.Duration>) { self.clock = clock }

    /// Creates the task for a number of events; the task is dropped if the creator has been shut down.
    @usableFromInline func admit(_ count: Int) -> FluxTask {
        // Created outside the lock, which is thus held a fifth as long. If two threads fire at once, either comes
        // first.
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

    /// Counts a task whose outcome is known; called while the task's lock is held.
    func count(_ task: FluxTask, as outcome: FluxTask.Outcome) {
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
        // Newest first: the end of a running event must not start events that wait for it.
        for (_, task) in table.withLock({ $0.tasks.pairs() }).reversed() { task.end(.cancelled) }
    }

    /// The task in flight that was fired last.
    var newest: FluxTask? { table.withLock { $0.tasks.last } }

    /// Waits for the end of all tasks up to one; returns false if the calling task was cancelled first.
    @discardableResult func flush(upTo newest: FluxTask?) async -> Bool {
        // Most events end in the order fired. Then only the newest is waited for, as none of those before it is left.
        guard let newest else { return true }
        if await newest.waitForEnd() == nil { return false }
        for (_, task) in table.withLock({ $0.tasks.pairs(before: newest.id) }).reversed() {
            if await task.waitForEnd() == nil { return false }
        }
        return true
    }

    func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        table.withLock { $0.isShutDown = true }
        _ = await fluxWithin(duration, on: clock) { [newest] in await self.flush(upTo: newest) }
        cancelAll()
        return table.withLock { $0.counts }
    }
}
