import Dispatch
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
    public enum Outcome: Sendable {
        /// The converter has returned, and has released its action handler.
        case completed
        /// The converter threw this, and no retry was left.
        case failed(any Error)
        /// It was cancelled, by hand or by a rule, before it had ended.
        case cancelled
        /// A rule refused it, or its creator was shut down: it never started.
        case dropped
    }

    /// What happens in the life of an event.
    public enum LifeEvent: Sendable {
        /// The converter was called.
        case started
        /// An action was dispatched, and has been applied.
        case actionSent
        /// The converter threw an error and will be called again; the attempt that failed, counted from 1.
        case retrying(attempt: Int, error: any Error)
        /// It is over; nothing comes after this.
        case ended(Outcome)
    }

    typealias Machine = FluxTaskMachine<FluxLatch>

    let lock: FluxLock<Machine>
    /// Bit 0: closed, nothing is dispatched any more. Bit 1: started. Bits 2 to 31: how many actions are being dispatched.
    /// From bit 32: how many were.
    private let gate = Synchronization.Atomic<UInt64>(0)
    /// Whether anybody ever looked at its life: most tasks are never looked at, and pay nothing for it.
    let isWatched = Synchronization.Atomic<Bool>(false)
    /// For one event of several that were fired together: the task of all.
    let parent: FluxTask?
    let threads = FluxThreads.shared

    /// Who keeps account of it while it is in flight; nil for the task of events that have each one of their own.
    private let control: FluxControl?
    /// How many events it stands for.
    let count: Int
    /// What the control knows it by, under the control's lock.
    nonisolated(unsafe) var flight = FluxFlight()

    /// Makes the task of several events, each of which has one of its own.
    @usableFromInline
    init(of parts: Int) {
        lock = FluxLock(Machine(parts: parts))
        (control, count, parent) = (nil, parts, nil)
        if parts == 0 { end(.completed) }
    }

    init(_ control: FluxControl, count: Int, parent: FluxTask?) {
        lock = FluxLock(Machine())
        (self.control, self.count, self.parent) = (control, count, parent)
    }

    // MARK: - Awaiting

    /// How the work ended; waits until it has.
    ///
    /// Of several events fired together: failed if one did, with the first error; else cancelled or dropped if one was;
    /// else completed. When the task that awaits this is cancelled it returns `.cancelled` at once, and the work goes on.
    ///
    /// A conversion that awaits an event which a rule holds back until that very conversion has ended would wait for
    /// good: such an event fails with ``FluxWaitCycle``.
    public var outcome: Outcome {
        get async {
            if let current = FluxTask.current { breakCycle(with: current) }
            let latch = FluxLatch()
            lock.withLock { if $0.wait(latch) { latch.enter() } }
            await latch.wait()
            return lock.withLock { $0.outcome } ?? .cancelled
        }
    }

    /// The life of the work so far and from now on, from its start to its end, whenever one begins to look.
    public var events: Events { Events(task: self) }

    // MARK: - Cancelling

    /// Whether it was cancelled, by ``cancel()`` or by a rule, before it had ended.
    public var isCancelled: Bool {
        lock.withLock { if case .cancelled = $0.outcome { true } else { $0.isCancelling } }
    }

    /// Ends the work: once this has returned, no further action of it is dispatched (C9).
    ///
    /// The task has ended then, with the outcome `.cancelled`, also for the rules of its creator, whatever the converter
    /// still does; an asynchronous one has its Swift task cancelled. On work that has ended it does nothing.
    ///
    /// If another thread is dispatching an action of it at that moment, this waits until that has been applied, for two
    /// seconds at most: a dispatch that waits for the calling thread does not hang it.
    public func cancel() {
        let parts = lock.withLock { $0.cancel() }
        for part in parts { part.cancel() }
        end(.cancelled)
        awaitSends()
    }

    // MARK: - Sending

    /// Dispatches an action unless the work has ended; false: it has, and nothing was dispatched.
    func send(_ dispatch: () -> Void) -> Bool {
        let before = gate.add(4, ordering: .acquiring).oldValue
        guard before & 1 == 0 else {
            gate.subtract(4, ordering: .releasing)
            return false
        }
        let thread = threads.current
        let outer = thread.pointee.sending
        thread.pointee.sending = UnsafeRawPointer(fluxIdentity: self)
        dispatch()
        thread.pointee.sending = outer
        count(ending: 4)
        parent?.count(ending: 0)
        return true
    }

    private func count(ending sends: UInt64) {
        gate.add((1 << 32) - sends, ordering: .sequentiallyConsistent)
        if isWatched.load(ordering: .sequentiallyConsistent) { tell { _ in } }
    }

    private var sent: UInt64 { gate.load(ordering: .sequentiallyConsistent) >> 32 }

    /// Waits until no other thread is dispatching an action.
    private func awaitSends() {
        let own: UInt64 = threads.current.pointee.sending == UnsafeRawPointer(fluxIdentity: self) ? 1 : 0
        fluxWait(upTo: .seconds(2)) { gate.load(ordering: .acquiring) & 0xFFFF_FFFC <= own << 2 }
    }

    // MARK: - Cycles

    /// The work that the running Swift task is part of, if its creator has rules.
    @TaskLocal static var current: FluxTask?

    private func breakCycle(with current: FluxTask) {
        for part in lock.withLock({ $0.openParts }) { part.breakCycle(with: current) }
        if let control, control.waits(self, for: current) { end(.failed(FluxWaitCycle())) }
    }

    // MARK: - Ending

    /// Ends the work if it has not ended; the owner is told outside every lock.
    func end(_ outcome: Outcome) {
        guard let closing = close(outcome) else { return }
        control?.ended(self, outcome)
        finish(closing)
    }

    /// Ends the work, under the lock of its owner: runs nobody's code; nil if it had ended.
    func close(_ outcome: Outcome) -> Machine.Closing? {
        let closing = lock.withLock { $0.close(outcome, sent: sent) }
        if closing != nil { gate.bitwiseOr(1, ordering: .sequentiallyConsistent) }
        return closing
    }

    /// Tells everybody that the work has ended, outside every lock.
    func finish(_ closing: Machine.Closing) {
        if case .cancelled = closing.outcome { closing.work?.cancel() }
        for waiter in closing.waiters { waiter.leave() }
        parent?.partEnded(self, closing.outcome)
    }

    /// Adds the task of one event of several.
    @usableFromInline
    func add(_ part: FluxTask) {
        lock.withLock { $0.add(part) }
    }

    private func partEnded(_ part: FluxTask, _ outcome: Outcome) {
        if let whole = lock.withLock({ $0.partEnded(part, outcome) }) { end(whole) }
    }

    /// Notes an event of its life, and wakes those who look.
    func tell(_ note: (inout Machine) -> Void) {
        let listeners = lock.withLock { machine in
            note(&machine)
            return machine.takeListeners()
        }
        for listener in listeners { listener.leave() }
    }

    /// The converter is called now; false: the work has ended, and must not start.
    func start() -> Bool {
        // Not with one "or": one that was closed before would have been started, for those who look at its life.
        var before = gate.load(ordering: .relaxed)
        while true {
            if before & 1 != 0 { return false }
            let (isDone, original) = gate.compareExchange(
                expected: before, desired: before | 2, ordering: .sequentiallyConsistent)
            if isDone { break }
            before = original
        }
        if isWatched.load(ordering: .sequentiallyConsistent) { tell { _ in } }
        if let parent { _ = parent.start() }
        return true
    }

    func retry(after attempt: Int, _ error: any Error) {
        tell { $0.note(attempt: attempt, error, sent: sent) }
        parent?.retry(after: attempt, error)
    }

    /// What there is to see of its life behind a cursor.
    func look(after cursor: inout Machine.Cursor, else waiter: FluxLatch) -> Machine.Look {
        isWatched.store(true, ordering: .sequentiallyConsistent)
        return lock.withLock { machine in
            let gate = gate.load(ordering: .sequentiallyConsistent)
            let look = machine.next(after: &cursor, sent: gate >> 32, isStarted: gate & 2 != 0)
            if case .wait = look {
                waiter.enter()
                machine.listen(waiter)
            }
            return look
        }
    }
}

/// An event was awaited by the conversion that it had to wait for; it ended without being converted.
///
/// Thread safety: a value.
nonisolated public struct FluxWaitCycle: Error, CustomStringConvertible {
    /// What happened and what to do instead, for a log.
    public var description: String {
        "A conversion awaited an event that a rule holds back until that conversion has ended: fire without awaiting."
    }
}
