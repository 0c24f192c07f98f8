import Dispatch

/// What became of the events of a creator, by count.
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
    /// Those whose last action was being dispatched when the shutdown returned; they end on their own.
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
    /// The tasks in the order fired; those that have ended stay in here until they are swept out: the tasks are the account.
    private struct Table {
        var tasks: ContiguousArray<(place: UInt64, task: FluxTask)> = []
        var lastPlace: UInt64 = 0
        var isShutDown = false
    }

    private struct Counts {
        var ended = FluxShutdown()
        /// How many tasks have ended since the last sweep, and how many are worth one.
        var unswept = 0
        var limit = 256
    }

    let clock: any _Concurrency.Clock<Swift.Duration>
    /// What decides when an event is run; nil: at once and in order.
    let funnel: FluxSchedulerFunnel?
    /// The creator's own serial queue: `DispatchQueue.main` does not run in every program.
    let queue = fluxQueue("FluxActionCreator")
    private let table = FluxLock(Table())
    private let counts = FluxLock(Counts())

    @usableFromInline init(_ schedulers: [any FluxScheduler], clock: any _Concurrency.Clock<Swift.Duration>) {
        self.clock = clock
        funnel = schedulers.isEmpty ? nil : FluxSchedulerFunnel(schedulers)
    }

    /// Whether there is no scheduler.
    @usableFromInline var isPlain: Bool { funnel == nil }

    /// Takes in a task; false: the creator was shut down, and the task is dropped.
    @usableFromInline func admit(_ task: FluxTask) -> Bool {
        let isOpen = table.withLock { table in
            if table.isShutDown { return false }
            table.lastPlace += 1
            table.tasks.append((table.lastPlace, task))
            return true
        }
        return isOpen || !task.end(.dropped)
    }

    /// Counts a task that is about to be settled, under its lock; true: a sweep is due.
    func count(_ task: FluxTask, _ outcome: FluxTask.Outcome) -> Bool {
        counts.withLock { counts in
            counts.ended.count(outcome, task.count)
            counts.unswept += 1
            return counts.unswept >= counts.limit
        }
    }

    /// The outcome of a task is known.
    func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome, isSweepDue: Bool) {
        funnel?.ended(task, outcome)
        if isSweepDue { sweep() }
    }

    private func sweep() {
        let (ended, left) = table.withLock { table in
            let ended = table.tasks.filter { $0.task.isSettled }
            table.tasks.removeAll { $0.task.isSettled }
            return (ended, table.tasks.count)
        }
        counts.withLock { ($0.unswept, $0.limit) = (0, $0.limit == 0 ? 0 : max(left, 256)) }
        withExtendedLifetime(ended) {}
    }

    /// Nobody can fire any more: each end is worth a sweep.
    func close() {
        counts.withLock { $0.limit = 0 }
        sweep()
    }

    // MARK: - Overseeing

    private var open: [FluxTask] { table.withLock { $0.tasks.filter { !$0.task.isSettled } }.map(\.task) }

    var inFlight: Int {
        FluxPureCode.forbid("inFlight")
        return open.reduce(0) { $0 + $1.count }
    }

    func cancelAll() {
        FluxPureCode.forbid("cancelAll()")
        // The last first: the end of one that runs must not start those that wait for it.
        for task in open.reversed() { task.end(.cancelled) }
    }

    func flush() async {
        FluxPureCode.forbid("flush()")
        // The last one first: most events end in the order fired, so that it is the only one to wait for.
        let last = table.withLock { $0.lastPlace }
        while !_Concurrency.Task.isCancelled {
            let task = table.withLock { $0.tasks.last { $0.place <= last && !$0.task.isSettled }?.task }
            guard let task else { return }
            _ = await task.settled()
        }
    }

    func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        FluxPureCode.forbid("shutdown(within:)")
        fluxRequire(duration >= .zero, "shutdown(within:) was given a negative duration, \(duration).")
        table.withLock { $0.isShutDown = true }
        let latch = FluxLatch()
        latch.enter()
        // Whoever is first; the other is cancelled, and not waited for: a clock of the user's may wait on all the same.
        let bodies: [@Sendable () async -> Void] = [Self.deadline(in: duration, on: clock), { await self.flush() }]
        let waits = bodies.map { wait in
            _Concurrency.Task {
                await wait()
                latch.open()
            }
        }
        await latch.wait()
        for wait in waits { wait.cancel() }
        cancelAll()
        // Again where one has ended while they were counted, or it would be in two counts or in none.
        while true {
            let before = counts.withLock { $0.ended }
            let unfinished = inFlight
            var total = counts.withLock { $0.ended }
            if (total.completed, total.failed, total.cancelled) != (before.completed, before.failed, before.cancelled) {
                continue
            }
            total.unfinished = unfinished
            return total
        }
    }

    /// Waits until a moment that is counted from here: a clock that is moved on by hand may be moved right after.
    ///
    /// A century away at most: the clocks of the system stop the program where they are given more than they can count.
    private static func deadline<Clock: _Concurrency.Clock<Swift.Duration>>(
        in duration: Swift.Duration, on clock: Clock
    ) -> @Sendable () async -> Void {
        let end = clock.now.advanced(by: Swift.min(duration, .seconds(3_000_000_000)))
        return { try? await clock.sleep(until: end, tolerance: nil) }
    }
}
