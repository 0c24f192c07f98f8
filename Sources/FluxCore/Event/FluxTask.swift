import Synchronization

/// The work that one `fire` has started: it can be awaited, watched and cancelled.
///
/// ```swift
/// let task = creator.fire(.search("milk"))
/// if case .failed(let error) = await task.outcome { print(error) }
/// ```
///
/// Letting go of the task cancels nothing.
///
/// Thread safety: all of it may be used from any thread, also by the conversion itself.
nonisolated public final class FluxTask: Sendable {
    /// How the work of an event ended.
    ///
    /// Thread safety: a value.
    public enum Outcome: Sendable {
        /// The converter has returned and, in the callback form, has released its action handler.
        case completed
        /// The converter threw this, and was not to be called again.
        case failed(any Swift.Error)
        /// It was cancelled, by hand or by a scheduler, before it had ended.
        case cancelled
        /// A scheduler refused it, or its creator was shut down: it never started.
        case dropped

        /// Whether it ran to its end without an error.
        public var isCompleted: Bool { if case .completed = self { true } else { false } }
        /// Whether it was cancelled.
        public var isCancelled: Bool { if case .cancelled = self { true } else { false } }
        /// Whether it was refused.
        public var isDropped: Bool { if case .dropped = self { true } else { false } }
        /// What it failed with; nil if it did not fail.
        public var error: (any Swift.Error)? { if case .failed(let error) = self { error } else { nil } }
    }

    /// What happens in the life of an event.
    ///
    /// Thread safety: a value.
    public enum LifeEvent: Sendable {
        /// The converter was called.
        case started
        /// An action was dispatched, and has been applied; what `begin` of a command has changed may be told after a `retrying`.
        case actionSent
        /// The converter threw an error and will be called again; the attempt that failed, counted from 1.
        case retrying(attempt: Int, error: any Swift.Error)
        /// It is over; nothing comes after this.
        case ended(Outcome)
    }

    // An object of 120 bytes at most: the system frees larger ones of another thread under a lock, which doubles the cost of
    // an event.
    private let machine = FluxLock(FluxTaskMachine())
    /// Who keeps account of it; nil for the task of events that have each one of their own.
    private let account: FluxCreatorAccount?
    /// The tasks of events that were fired together.
    private let parts: [FluxTask]
    // With the flag beside it in one word.
    private let size: UInt32
    private let hasClosed = Synchronization.Atomic<Bool>(false)
    /// How many events it stands for.
    var count: Int { Int(size) }
    /// A number that no other work of this run of the program has; it rises from one `fire` to the next that begins after it.
    public let id = FluxTask.lastID.wrappingAdd(1, ordering: .relaxed).newValue

    // Added to relaxed: a number has to be unlike all others, and those that one thread draws rise.
    private static let lastID = Synchronization.Atomic<UInt64>(0)

    @usableFromInline init(_ account: FluxCreatorAccount?, count: Int, parts: [FluxTask] = []) {
        (self.account, size, self.parts) = (account, UInt32(count), parts)
    }

    /// The task of each event, or of those that share one.
    private var works: [FluxTask] { account == nil ? parts : [self] }

    // MARK: - Awaiting

    /// How the work ended; waits until it has, and no action of it is being dispatched (C9).
    ///
    /// Of several events fired together: failed if one did, with the first error; else cancelled or dropped if one was;
    /// else completed. When the task that awaits this is cancelled it returns `.cancelled` at once, and the work goes on.
    ///
    /// A conversion that awaits its own work, or work that is held back until that very conversion has ended, waits for good:
    /// ``cancel()``, of either, ends that.
    public var outcome: Outcome {
        get async {
            var outcomes: [Outcome] = []
            for work in works { if let end = await work.settled() { outcomes.append(end) } else { return .cancelled } }
            return outcomes.first { $0.error != nil } ?? outcomes.first { !$0.isCompleted } ?? .completed
        }
    }

    /// The life of the work so far and from now on, from its start to its end, whenever one begins to look.
    ///
    /// Of several events fired together, each in its turn; those that share a conversion have one life, with one start and one
    /// end.
    public var events: Events { Events(tasks: works[...]) }

    /// Waits for the end; nil: the task that awaits was cancelled before.
    func settled() async -> Outcome? {
        if machine.withLock({ !$0.isSettled }) { await look(isForEnd: true) { $0.isSettled } }
        return machine.withLock { $0.isSettled ? $0.end : nil }
    }

    /// Waits until something has happened, or the end alone, unless what is looked for is there.
    private func look(isForEnd: Bool = false, _ isThere: (inout FluxTaskMachine) -> Bool) async {
        await FluxLatch.wait { latch in
            machine.withLock { isThere(&$0) ? nil : $0.wait(latch, isForEnd: isForEnd) }
        } withdrawing: { latch in
            machine.withLock { $0.waiters[isForEnd]?[ObjectIdentifier(latch)] = nil }
        }
    }

    // MARK: - Cancelling

    /// Whether it was cancelled, by ``cancel()`` or by a scheduler, before it had ended.
    public var isCancelled: Bool { works.contains { $0.machine.withLock { $0.end?.isCancelled ?? false } } }

    /// Ends the work: once this has returned, no further action of it passes to the stores (C9).
    ///
    /// It never waits: an action that another thread is dispatching at that moment is still applied, and the ``outcome`` is
    /// known only after that. An asynchronous conversion has its Swift task cancelled. On work that has ended, or is just
    /// bringing in what came of it, it does nothing.
    ///
    /// - Complexity: O(log *n*) of the events in flight on its creator.
    public func cancel() {
        FluxPureCode.forbid("FluxTask.cancel()")
        // The last first: the end of one that runs must not start those that wait for it.
        for work in works.reversed() { work.end(.cancelled) }
    }

    // MARK: - Telling it from others

    /// The work whose action is being dispatched on this thread; nil if there is none.
    public static var current: FluxTask? { FluxThreads.shared.current.task }

    // MARK: - What its creator and its conversion do

    /// Starts the work, unless it has ended.
    @usableFromInline func start() -> Bool { change { $0.start() } }

    /// Whether it has ended; one that sends its last action may be about to.
    // Relaxed, and without the lock, which takes a seventh of an event: who has ended it knows; to others it may come right after.
    var isClosed: Bool { hasClosed.load(ordering: .relaxed) }

    /// The attempt under way or next, counted from 1.
    @usableFromInline var attempt: Int { machine.withLock { $0.attempt } }

    /// Runs a dispatch of the conversion, unless the work has ended; false: refused.
    @usableFromInline func dispatch(_ body: () -> Void) -> Bool { pass(isKept: false, body) != nil }

    /// Runs a dispatch: of the conversion, or one that something kept and goes on with now, unless the work was cancelled; nil: refused.
    func pass<Result>(isKept: Bool = true, _ body: () -> Result) -> Result? {
        guard machine.withLock({ $0.enter(isKept: isKept) }) else { return nil }
        defer { change { $0.leave(hasSent: !isKept) } }
        return FluxThreads.shared.current.sending(self, body)
    }

    /// Notes a failed attempt that is to be followed by another; nil: the work has ended meanwhile.
    func retry(after error: any Swift.Error) -> FluxTaskMachine.Dropped? { change { $0.retry(after: error) } }

    /// It is retried, and whoever looks at events is told so.
    func tellRetried(_ tell: () -> Void) {
        tell()
        change { $0.leave(hasSent: false) }
    }

    /// Has a closure called where the work is cancelled; at once if it was.
    func onCancel(_ body: @escaping @Sendable () -> Void) {
        if machine.withLock({ $0.onCancel(FluxTaskMachine.Cancellation(body: body)) }) { body() }
    }

    /// Has a closure called with the outcome, before that is known; at once if it is.
    @usableFromInline func onEnd(_ body: @escaping @Sendable (Outcome) -> Void) {
        if let outcome = machine.withLock({ $0.onEnd(FluxTaskMachine.Ending(body: body)) }) { body(outcome) }
    }

    /// Ends the work unless it has ended.
    ///
    /// - Parameters:
    ///   - outcome: How.
    ///   - last: What belongs to the end, in one step with it: who cancels the work comes before that or too late. Returns
    ///     whether it has dispatched an action.
    func end(_ outcome: Outcome, last: () -> Bool) {
        guard machine.withLock({ $0.close(outcome, isSending: true) }) else { return }
        let hasSent = FluxThreads.shared.current.sending(self, last)
        change { $0.leave(hasSent: hasSent) }
    }

    /// Ends the work with nothing to dispatch, unless it has ended.
    func end(_ outcome: Outcome) { change { _ = $0.close(outcome) } }

    /// Takes the machine one step on, and tells whoever is to be told of that, outside the lock.
    @inline(__always) private func change<Result>(_ input: (inout FluxTaskMachine) -> Result) -> Result {
        let (result, told) = machine.withLock { machine in
            let result = input(&machine)
            let wasSettled = machine.isSettled
            let told = machine.tell()
            if machine.end != nil { hasClosed.store(true, ordering: .relaxed) }
            // Under the lock: who knows that it is settled does not find it in flight.
            if machine.isSettled && !wasSettled, let end = machine.end { account?.settled(self, end) }
            return (result, told)
        }
        if let told { see(told) }
        return result
    }

    private func see(_ told: consuming FluxTaskMachine.Told) {
        if let end = told.end {
            if end.isCancelled { for closure in told.cancellations { closure.body() } }
            for closure in told.endings { closure.body(end) }
            if !told.endings.isEmpty { change { $0.leave(hasSent: false) } }
        }
        for latches in told.waiters.values { for latch in latches.values { latch.open() } }
    }
}

nonisolated extension FluxTask {
    /// The life of a task as a sequence; any number of iterators, each from the start.
    ///
    /// Of attempts that failed, the latest 64 are told of to who begins to look late.
    ///
    /// Thread safety: the sequence may be shared; an iterator belongs to one task at a time.
    public struct Events: AsyncSequence, AsyncIteratorProtocol, Sendable {
        var tasks: ArraySlice<FluxTask>
        /// How many events of the first were seen.
        var seen = 0

        /// Begins at the start of the life, whenever that was.
        public func makeAsyncIterator() -> Events { self }

        /// The next event; nil after the end of the work, and when the calling task is cancelled.
        public mutating func next() async -> LifeEvent? {
            while let task = tasks.first, !_Concurrency.Task.isCancelled {
                var event: LifeEvent?
                await task.look { machine in
                    event = machine.next(after: &seen)
                    return event != nil
                }
                if case .ended = event { (tasks, seen) = (tasks.dropFirst(), 0) }
                if let event { return event }
            }
            return nil
        }
    }
}
