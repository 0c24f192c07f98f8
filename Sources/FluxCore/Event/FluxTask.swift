import Synchronization

/// The work that one `fire` has started: it can be awaited, watched and cancelled.
///
/// ```swift
/// let task = creator.fire(.search("milk"))
/// if case .failed(let error) = await task.outcome { print(error) }
/// ```
///
/// Releasing the task cancels nothing.
///
/// Thread safety: all of it may be used from any thread, and by the conversion itself.
nonisolated public final class FluxTask: Sendable {
    /// How the work of an event ended.
    ///
    /// Thread safety: a value.
    public enum Outcome: Sendable {
        /// The converter has returned and, in the callback form, has released its action handler.
        case completed
        /// The converter threw this error, and is not called again.
        case failed(any Swift.Error)
        /// The event was cancelled before it had ended: by hand, by a scheduler or by a shutdown of its creator.
        case cancelled
        /// A scheduler refused the event, or its creator was shut down: the event never started.
        case dropped

        /// Whether it ran to its end without an error.
        public var isCompleted: Bool { if case .completed = self { true } else { false } }
        /// Whether it was cancelled.
        public var isCancelled: Bool { if case .cancelled = self { true } else { false } }
        /// Whether it was refused.
        public var isDropped: Bool { if case .dropped = self { true } else { false } }
        /// The error that it failed with; nil if it did not fail.
        public var error: (any Swift.Error)? { if case .failed(let error) = self { error } else { nil } }
    }

    /// One step in the life of an event.
    ///
    /// Thread safety: a value.
    public enum LifeEvent: Sendable {
        /// The converter was called.
        case started
        /// An action was dispatched, and applied unless something on the way stopped or postponed it (C2).
        ///
        /// The change that a command's `begin` makes may be reported after a `retrying`.
        case actionSent
        /// The converter threw an error and will be called again; `attempt` is the one that failed, counted from 1.
        case retrying(attempt: Int, error: any Swift.Error)
        /// The event has ended; nothing comes after this.
        case ended(Outcome)
    }

    // At most 120 bytes in all: the system frees larger objects of another thread under a lock, which doubles an
    // event's cost.
    private let machine = FluxLock(FluxTaskMachine())
    /// The account that counts the task; nil for the task of several events that have their own tasks.
    private let account: FluxCreatorAccount?
    /// The tasks of events that were fired together.
    private let parts: [FluxTask]
    // In one word with the flag below.
    private let size: UInt32
    private let hasClosed = Synchronization.Atomic<Bool>(false)
    /// The number of events that the task stands for.
    var count: Int { Int(size) }
    /// A number unique in this run of the program; a `fire` that begins after another has returned gets a higher one.
    public let id = FluxTask.lastID.wrappingAdd(1, ordering: .relaxed).newValue

    // Relaxed: a number must only differ from all others, and the numbers that one thread draws rise.
    private static let lastID = Synchronization.Atomic<UInt64>(0)

    @usableFromInline init(_ account: FluxCreatorAccount?, count: Int, parts: [FluxTask] = []) {
        (self.account, size, self.parts) = (account, UInt32(count), parts)
    }

    /// The tasks of the single events, or this task.
    private var works: [FluxTask] { account == nil ? parts : [self] }

    // MARK: - Awaiting

    /// The outcome of the task; waits until it has ended and none of its actions is being dispatched (C9).
    ///
    /// For several events fired together, the outcome is `failed` if one failed, with the first error; otherwise
    /// `cancelled` or `dropped` if one was; otherwise `completed`. If the task that awaits this is cancelled before the
    /// work has ended, the result is `.cancelled` at once, and the work continues.
    ///
    /// A conversion waits forever if it awaits its own task, or a task that is held back until that same conversion has
    /// ended. Calling ``cancel()`` on either task ends the wait.
    public var outcome: Outcome {
        get async {
            var ends: [Outcome] = []
            for work in works { if let end = await work.waitForEnd() { ends.append(end) } else { return .cancelled } }
            return ends.first { $0.error != nil } ?? ends.first { !$0.isCompleted } ?? .completed
        }
    }

    /// The life events of the task, from its start to its end, no matter when iteration begins.
    ///
    /// For several events fired together, the life of each comes in turn. Events that share a conversion have one life,
    /// with one start and one end.
    public var events: Events { Events(tasks: works[...]) }

    /// Waits for the end; returns nil if the awaiting task is cancelled before that.
    func waitForEnd() async -> Outcome? {
        if machine.withLock({ !$0.isSettled }) { await waitForChange(isForEnd: true) { $0.isSettled } }
        return machine.withLock { $0.isSettled ? $0.end : nil }
    }

    /// Waits for the next life event, or for the end alone, unless the condition already holds.
    private func waitForChange(isForEnd: Bool = false, unless isThere: (inout FluxTaskMachine) -> Bool) async {
        await FluxLatch.wait { latch in
            machine.withLock { isThere(&$0) ? nil : $0.wait(latch, isForEnd: isForEnd) }
        } withdrawing: { latch in
            machine.withLock { $0.waiters[isForEnd]?[ObjectIdentifier(latch)] = nil }
        }
    }

    // MARK: - Cancelling

    /// Whether the task, or any of its events, was cancelled before it had ended, by whatever means.
    public var isCancelled: Bool { works.contains { $0.machine.withLock { $0.end?.isCancelled ?? false } } }

    /// Cancels the work: once this has returned, no further action of it passes to the stores (C9).
    ///
    /// It waits for no conversion. An action that another thread is dispatching at that moment is still applied, and
    /// the ``outcome`` becomes known only after that. The Swift task of an asynchronous conversion is cancelled. Does
    /// nothing if the work has ended, or is just sending its last action or reporting its error.
    ///
    /// The call that cancels the work calls the conversion's cancellation handlers, on this thread; and event observers
    /// too, unless another thread is dispatching an action of it and calls them after that. Hold no lock that they take.
    ///
    /// - Complexity: O(log *n*) for *n* events in flight on its creator, for each event of the task.
    public func cancel() {
        FluxPureCode.forbid("FluxTask.cancel()")
        // Last first: the end of a running event must not start events that wait for it.
        for work in works.reversed() { work.end(.cancelled) }
    }

    // MARK: - Identifying

    /// The task whose action is being dispatched on this thread; nil if there is none.
    public static var current: FluxTask? { FluxThreads.shared.current.task }

    // MARK: - For the creator and the conversion

    /// Starts the task; returns false if it has ended.
    @usableFromInline func start() -> Bool { change { $0.start() } }

    /// Whether the task has ended; may still be false while its last action is being sent.
    // Relaxed and without the lock, which takes a seventh of an event: the thread that ended it sees that; for others,
    // the end may come right after.
    var isClosed: Bool { hasClosed.load(ordering: .relaxed) }

    /// The current or next attempt, counted from 1.
    @usableFromInline var attempt: Int { machine.withLock { $0.attempt } }

    /// Runs a dispatch of the conversion; returns false, without running it, if the task has ended.
    @usableFromInline func dispatch(_ body: () -> Void) -> Bool { pass(isKept: false, body) != nil }

    /// Runs a dispatch of the conversion, or one that was kept and now continues; returns nil if it is refused.
    ///
    /// A kept dispatch is refused only if the task was cancelled. Any other is refused if the task has ended.
    func pass<Result>(isKept: Bool = true, _ body: () -> Result) -> Result? {
        guard machine.withLock({ $0.enter(isKept: isKept) }) else { return nil }
        defer { change { $0.leave(hasSent: !isKept) } }
        return FluxThreads.shared.current.sending(self, body)
    }

    /// Records a failed attempt that will be followed by another; returns nil if the task has ended meanwhile.
    ///
    /// `tellRetried(_:)`, which must follow, also wakes the tasks that wait: the caller may hold a lock.
    func retry(after error: any Swift.Error) -> FluxTaskMachine.Dropped? { machine.withLock { $0.retry(after: error) } }

    /// Reports a retry to the event observers.
    func tellRetried(_ tell: () -> Void) {
        tell()
        change { $0.leave(hasSent: false) }
    }

    /// Calls a closure when the task is cancelled, or at once if it already was.
    func onCancel(_ body: @escaping @Sendable () -> Void) {
        if machine.withLock({ $0.onCancel(FluxTaskMachine.Cancellation(body: body)) }) { body() }
    }

    /// Calls a closure with the outcome, before that becomes known; at once if it already is.
    @usableFromInline func onEnd(_ body: @escaping @Sendable (Outcome) -> Void) {
        if let outcome = machine.withLock({ $0.onEnd(FluxTaskMachine.Ending(body: body)) }) { body(outcome) }
    }

    /// Ends the task unless it has ended.
    ///
    /// - Parameters:
    ///   - outcome: How it ended.
    ///   - last: Work that is one atomic step with the end: a cancel comes either before it or too late. Returns
    ///     whether it has dispatched an action.
    func end(_ outcome: Outcome, last: () -> Bool) {
        guard machine.withLock({ $0.close(outcome, isSending: true) }) else { return }
        let hasSent = FluxThreads.shared.current.sending(self, last)
        change { $0.leave(hasSent: hasSent) }
    }

    /// Ends the task with nothing to dispatch, unless it has ended.
    func end(_ outcome: Outcome) { change { _ = $0.close(outcome) } }

    /// Advances the machine by one step, and sends the resulting notifications outside the lock.
    @inline(__always) private func change<Result>(_ input: (inout FluxTaskMachine) -> Result) -> Result {
        let (result, told) = machine.withLock { machine in
            let result = input(&machine)
            let wasSettled = machine.isSettled
            let told = machine.tell()
            if machine.end != nil { hasClosed.store(true, ordering: .relaxed) }
            // With the lock held: code that knows the task has settled must not find it in flight.
            if machine.isSettled && !wasSettled, let end = machine.end { account?.count(self, as: end) }
            return (result, told)
        }
        if let told { notify(told) }
        return result
    }

    private func notify(_ told: consuming FluxTaskMachine.Told) {
        if let end = told.end {
            if end.isCancelled { for closure in told.cancellations { closure.body() } }
            for closure in told.endings { closure.body(end) }
            if !told.endings.isEmpty { change { $0.leave(hasSent: false) } }
        }
        for latches in told.waiters.values { for latch in latches.values { latch.open() } }
    }
}

nonisolated extension FluxTask {
    /// The life events of a task as a sequence, with any number of iterators, each from the start.
    ///
    /// An iterator that begins late receives only the latest 64 failed attempts.
    ///
    /// Thread safety: the sequence may be shared; an iterator belongs to one task at a time.
    public struct Events: AsyncSequence, AsyncIteratorProtocol, Sendable {
        var tasks: ArraySlice<FluxTask>
        /// The number of life events seen of the first task.
        var seen = 0

        /// Returns an iterator from the start of the life, whenever that was.
        public func makeAsyncIterator() -> Events { self }

        /// Returns the next life event; nil after the end of the task, or if the calling task is cancelled.
        public mutating func next() async -> LifeEvent? {
            while let task = tasks.first, !_Concurrency.Task.isCancelled {
                var event: LifeEvent?
                await task.waitForChange { machine in
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
