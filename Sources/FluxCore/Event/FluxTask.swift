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
    ///
    /// Thread safety: a value.
    public enum Outcome: Sendable {
        /// The converter has returned and, in the callback form, has released its action handler.
        case completed
        /// The converter threw this, and no retry was left.
        case failed(any Error)
        /// It was cancelled, by hand or by a rule, before it had ended.
        case cancelled
        /// A rule refused it, or its creator was shut down: it never started.
        case dropped
    }

    /// What happens in the life of an event.
    ///
    /// Thread safety: a value.
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

    let gate: FluxGate
    let lock: FluxLock<Machine>
    /// Who keeps account of it while it is in flight; nil for the task of events that have each one of their own.
    let control: FluxControl?
    /// For one event of several that were fired together: the task of all.
    let parent: FluxTask?
    /// How many events it stands for.
    let count: Int
    /// What its control knows of it, under the lock of the control.
    nonisolated(unsafe) var flight = FluxFlight()

    /// Makes the task of several events, each of which has one of its own.
    @usableFromInline
    init(of parts: Int) {
        gate = FluxGate()
        lock = FluxLock(Machine(parts: parts))
        (control, count, parent) = (nil, parts, nil)
        if parts == 0 { end(.completed) }
    }

    init(_ control: FluxControl, count: Int, parent: FluxTask?) {
        gate = FluxGate(isSupervised: control.isRuled)
        lock = FluxLock(Machine())
        (self.control, self.count, self.parent) = (control, count, parent)
    }

    // MARK: - Awaiting

    /// How the work ended; waits until it has.
    ///
    /// Of several events fired together: failed if one did, with the first error; else cancelled or dropped if one was;
    /// else completed. When the task that awaits this is cancelled it returns `.cancelled` at once, and the work goes on.
    ///
    /// A conversion that awaits its own event, or one that a rule holds back until that very conversion has ended, would
    /// wait for good: what it awaits fails with ``FluxWaitCycle``. This is seen where the conversion itself awaits, not
    /// where a child task does on its behalf.
    public var outcome: Outcome {
        get async {
            fluxStopInsideHandle("FluxTask.outcome")
            if let current = FluxTask.running { return await outcome(awaitedBy: current) }
            return await ended()
        }
    }

    /// The life of the work so far and from now on, from its start to its end, whenever one begins to look.
    public var events: Events { Events(task: self) }

    func ended() async -> Outcome {
        let latch = FluxLatch()
        lock.withLock { machine in
            if gate.watch().isClosed { return }
            latch.enter()
            machine.wait(latch)
        }
        await latch.wait()
        return lock.withLock { $0.outcome(gate.word) } ?? .cancelled
    }

    // MARK: - Cancelling

    /// Whether it was cancelled, by ``cancel()`` or by a rule, before it had ended.
    public var isCancelled: Bool { gate.word.end == .cancelled }

    /// Ends the work: once this has returned, no further action of it is dispatched (C9).
    ///
    /// The task has ended then, with the outcome `.cancelled`, also for the rules of its creator, whatever the converter
    /// still does; an asynchronous one has its Swift task cancelled. On work that has ended it does nothing.
    ///
    /// If another thread is dispatching an action of it at that moment, this waits until that has been applied, for two
    /// seconds at most: a dispatch that waits for the calling thread does not hang it.
    ///
    /// - Complexity: O(log *n*) of the events in flight on its creator, with rules; else O(1).
    public func cancel() {
        fluxStopInsideHandle("FluxTask.cancel()")
        for part in lock.withLock({ $0.parts }) { part.cancel() }
        end(.cancelled)
        awaitDispatches()
    }

    /// Waits until no other thread is dispatching an action.
    private func awaitDispatches() {
        let own: UInt64 = FluxThreads.shared.current.pointee.sending == UnsafeRawPointer(fluxIdentity: self) ? 1 : 0
        fluxWait(upTo: .seconds(2)) { gate.word.dispatches <= own }
    }

    @usableFromInline var hasEnded: Bool { gate.word.isClosed }

    // MARK: - The work

    /// The converter is called now; false: the work has ended, and must not start.
    func start() -> Bool {
        let before = gate.start()
        if before.isClosed { return false }
        if before.isWatched { tell() }
        if let parent { _ = parent.start() }
        return true
    }

    /// Dispatches an action unless the work has ended; false: it has, and nothing was dispatched.
    func send(_ dispatch: () -> Void) -> Bool {
        if gate.enter().isClosed { return false }
        let thread = FluxThreads.shared.current
        let outer = thread.pointee.sending
        thread.pointee.sending = UnsafeRawPointer(fluxIdentity: self)
        dispatch()
        thread.pointee.sending = outer
        if gate.leave().isWatched { tell() }
        if let parent, parent.gate.count().isWatched { parent.tell() }
        return true
    }

    func retry(after attempt: Int, _ error: any Error) {
        lock.withLock { $0.note(attempt: attempt, error, sent: gate.word.sent) }
        tell()
        parent?.retry(after: attempt, error)
    }

    /// Keeps the Swift task that does the work, to cancel it with this; one that has ended needs none.
    func begin(_ work: _Concurrency.Task<Void, Never>) {
        if gate.word.isClosed && !isCancelled { return }
        lock.withLock { machine in
            if !gate.watch().isClosed { machine.begin(work) }
        }
        if isCancelled { work.cancel() }
    }

    /// Wakes those who look at its life.
    func tell() {
        for listener in lock.withLock({ $0.takeListeners() }) { listener.leave() }
    }

    /// What there is to see of its life behind a cursor.
    func look(after cursor: inout Machine.Cursor, else waiter: FluxLatch) -> Machine.Look {
        lock.withLock { machine in
            _ = gate.watch()
            let look = machine.next(after: &cursor, gate.word)
            if case .wait = look {
                waiter.enter()
                machine.listen(waiter)
            }
            return look
        }
    }

    // MARK: - Ending

    /// Ends the work unless it has ended; true: it had not.
    @discardableResult
    func end(_ outcome: Outcome) -> Bool {
        let before = close(outcome)
        if before.isClosed { return false }
        control?.ended(self, outcome, isSupervised: before.isSupervised)
        finish(outcome, isWatched: before.isWatched)
        return true
    }

    /// Ends the work, runs nobody's code, and returns what the gate said before.
    func close(_ outcome: Outcome) -> FluxGate.Word {
        switch outcome {
        case .completed: return gate.close(.completed)
        case .cancelled: return gate.close(.cancelled)
        case .dropped: return gate.close(.dropped)
        case .failed(let error):
            return lock.withLock { machine in
                // Only one can fail first: an error is kept before anybody can see that there is one.
                let word = gate.word
                if word.isClosed { return word }
                machine.fail(error)
                return gate.close(.failed)
            }
        }
    }

    /// Tells everybody that the work has ended, outside every lock.
    func finish(_ outcome: Outcome, isWatched: Bool) {
        if isWatched {
            let closing = lock.withLock { $0.close() }
            if case .cancelled = outcome { closing.work?.cancel() }
            for waiter in closing.waiters { waiter.leave() }
        }
        if let parent, let whole = parent.lock.withLock({ $0.partEnded(outcome) }) { parent.end(whole) }
    }

    /// Adds the task of one event of several.
    @usableFromInline
    func add(_ part: FluxTask) {
        lock.withLock { $0.add(part) }
    }
}
