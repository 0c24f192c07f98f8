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

    // An object of 120 bytes at most: the system frees larger ones of another thread under a lock, which doubles the cost
    // of an event.
    let gate: FluxGate
    let lock: FluxLock<Machine>
    /// The event, or an array of those that were fired together, until its conversion begins.
    ///
    /// So the one object that is made for each event holds the event too, which does not live as long as the handle that
    /// somebody keeps. Touched by whoever was put in charge of beginning it, and by nobody else.
    @exclusivity(unchecked) nonisolated(unsafe) var load: (any Sendable)?
    /// Who keeps account of it while it is in flight; nil for the task of events that have each one of their own.
    ///
    /// Retained only with rules, which are asked of the task as long as anybody has it. Without them it lives until the
    /// task is settled; the thread that fires and the one that converts would fight over its count.
    let control: Unmanaged<FluxControl>?
    /// For one event of several that were fired together: the task of all.
    let parent: FluxTask?
    /// Names the Swift task that runs its conversion; 0 for none.
    let runner = Synchronization.Atomic<UInt>(0)
    /// Its number in the order fired, under the lock of its control.
    nonisolated(unsafe) var id: UInt64 = 0
    private let size: UInt32
    let isRuled: Bool
    /// Whether its end has been seen to, and `control` is not touched any more.
    let settled = Synchronization.Atomic<Bool>(false)
    /// Whether who cancelled it is through with the Swift task.
    let isRunnerTold = Synchronization.Atomic<Bool>(false)

    /// How many events it stands for.
    @usableFromInline var count: Int { Int(size) }
    /// Who keeps account of it, if there are rules.
    var ruledControl: FluxControl? { isRuled ? control?.takeUnretainedValue() : nil }

    /// Makes the task of several events, each of which has one of its own.
    @usableFromInline
    init(of parts: Int) {
        gate = FluxGate()
        lock = FluxLock(Machine(parts: parts))
        (control, isRuled, size, parent) = (nil, false, UInt32(parts), nil)
        if parts == 0 { end(.completed) }
    }

    init(_ load: any Sendable, _ control: FluxControl, count: Int, parent: FluxTask?, origin: UInt64) {
        isRuled = control.isRuled
        gate = FluxGate(isSupervised: isRuled, isTraced: origin != 0)
        lock = FluxLock(Machine(origin: origin))
        self.load = load
        self.control = isRuled ? .passRetained(control) : .passUnretained(control)
        (size, self.parent) = (UInt32(count), parent)
    }

    deinit {
        if isRuled { control?.release() }
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
            return await outcomeAwaitedInside()
        }
    }

    /// The life of the work so far and from now on, from its start to its end, whenever one begins to look.
    public var events: Events { Events(task: self) }

    func ended() async -> Outcome {
        await end(wakes: FluxLatch())
        return lock.withLock { $0.outcome(gate.word) } ?? .cancelled
    }

    /// Waits until the work has ended or somebody else leaves the latch.
    func end(wakes latch: FluxLatch) async {
        lock.withLock { machine in
            if gate.watch().isClosed { return }
            latch.enter()
            machine.wait(latch)
        }
        await latch.wait()
    }

    // MARK: - Cancelling

    /// Whether it was cancelled, by ``cancel()`` or by a rule, before it had ended.
    public var isCancelled: Bool { gate.word.end == .cancelled }

    /// Ends the work: once this has returned, no further action of it is dispatched (C9).
    ///
    /// The task has ended then, with the outcome `.cancelled`, also for the rules of its creator, whatever the converter
    /// still does; an asynchronous one has its Swift task cancelled. On work that has ended it does nothing; work that has
    /// failed, and whose failure is just being told, ends with that at once. A command that is just bringing in what came of it
    /// completes, as soon as it has.
    ///
    /// If another thread is dispatching an action of it at that moment, this waits until that has been applied, for two
    /// seconds at most: a dispatch that waits for the calling thread does not hang it.
    ///
    /// - Complexity: O(log *n*) of the events in flight on its creator, with rules; else O(1).
    public func cancel() {
        fluxStopInsideHandle("FluxTask.cancel()")
        // The last first: the end of one that runs must not start those that wait for it.
        let parts = lock.withLock { $0.parts }
        for part in parts.reversed() { part.end(.cancelled) }
        end(.cancelled)
        Self.awaitDispatches(of: parts + [self])
    }

    /// Waits until no other thread is dispatching an action of some tasks, for two seconds in all.
    static func awaitDispatches(of tasks: ContiguousArray<FluxTask>) {
        let sending = FluxThreads.shared.current.pointee.sending
        var rest = tasks[...]
        fluxWait(upTo: .seconds(2)) {
            while let task = rest.last,
                task.gate.word.dispatches <= (sending == UnsafeRawPointer(fluxIdentity: task) ? 1 : 0)
            {
                rest.removeLast()
            }
            return rest.isEmpty
        }
    }

    @usableFromInline var hasEnded: Bool { gate.word.isClosed }

    /// Whether it was ended because its own conversion waits for it; that is told once the conversion returns.
    @usableFromInline var isInCycle: Bool { error is FluxWaitCycle }

    /// The error that the work has failed with, if it has.
    var error: (any Error)? {
        if case .failed(let error) = lock.withLock({ $0.outcome(gate.word) }) { error } else { nil }
    }
}
