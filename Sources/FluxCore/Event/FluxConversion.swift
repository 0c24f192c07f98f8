import Dispatch
import Synchronization

/// One run of a converter: its event, its dependency, and the functions that send its actions and end it.
///
/// A form of converter of your own implements ``FluxActionConverter/start(_:)`` with it:
///
/// ```swift
/// protocol StreamConverter: FluxActionConverter {
///     associatedtype Event
///     associatedtype Action
///     associatedtype Dependency
///     static func actions(for event: Event, dependency: Dependency) -> AsyncStream<Action>
/// }
/// extension StreamConverter {
///     static var sharesConversions: Bool { false }
///     static func convert(event: Event, dependency: Dependency, actionHandler: @escaping @Sendable (Action) -> Void) {
///         _ = Task { for await action in actions(for: event, dependency: dependency) { actionHandler(action) } }
///     }
///     static func start(_ conversion: FluxConversion<Self>) {
///         conversion.perform {
///             for await action in actions(for: conversion.event, dependency: conversion.dependency) { conversion.send(action) }
///         }
///     }
/// }
/// ```
///
/// A conversion that is released without having been ended has completed.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxConversion<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let creator: FluxActionCreator<Converter>
    /// The task that this conversion belongs to.
    public let task: FluxTask
    /// The number of the attempt, counted from 1; what an earlier attempt starts to send after its end is refused (C9).
    public let attempt: Int
    @usableFromInline let first: Converter.Event
    @usableFromInline let shared: [Converter.Event]
    @usableFromInline let firedOn: DispatchQueue?
    @usableFromInline let ticket: FluxTicket?
    @usableFromInline let hasEnded = Synchronization.Atomic<Bool>(false)

    // Inlinable, with single fields and not the whole `due`: otherwise each event requests the type metadata of `due`.
    @inlinable init(_ creator: FluxActionCreator<Converter>, _ due: consuming FluxDueEvent<Converter.Event>) {
        (self.creator, task, first) = (creator, due.task, due.first)
        (shared, firedOn, ticket) = (due.shared, due.queue, due.ticket)
        attempt = due.ticket == nil ? 1 : due.task.attempt
    }

    deinit {
        // Relaxed: the last release orders everything done before it.
        if hasEnded.load(ordering: .relaxed) { return }
        if !FluxThreads.shared.current.pointee.mayHoldLock { return task.end(.completed) }
        // A state may release it while its store's lock is held, but event observers are called without a lock. The
        // usual case, above, runs for each event and creates no closure.
        FluxPureCode.after { [task] in task.end(.completed) }
    }

    // MARK: - Event and dependency

    /// The event that was fired.
    public var event: Converter.Event {
        fluxRequire(
            task.count == 1,
            "\(Converter.self) shares one conversion among events that are fired together, but used its event or ended "
                + "it by hand. Declare `static var sharesConversions: Bool { false }`, or use forEachEvent.")
        return first
    }

    /// Calls a closure with each event of the conversion, in order, until the task is cancelled.
    ///
    /// - Parameter body: Converts one event.
    @inlinable public func forEachEvent(_ body: (Converter.Event) -> Void) {
        if shared.isEmpty { return body(first) }
        for event in shared where !isOver { body(event) }
    }

    /// The creator's dependency.
    @inlinable public var dependency: Converter.Dependency { creator.dependency }

    /// The queue of the conversion: the one given to `fire`, or else the creator's own serial queue.
    ///
    /// The conversion starts on it, unless it began inside `fire`: see ``FluxActionConverter/startsAtOnce``.
    public var queue: DispatchQueue { firedOn ?? creator.account.queue }

    // Relaxed: the thread that ended it sees that; for any other thread, the end may come right after.
    /// Whether the conversion has ended, or its task has.
    public var isOver: Bool { hasEnded.load(ordering: .relaxed) || task.isClosed }

    // MARK: - Actions and end

    /// Dispatches an action, unless the task was cancelled; when it returns, the action has been applied (C2, C9).
    ///
    /// After the end of the conversion it dispatches nothing, and `onFailure` of the creator receives a
    /// ``FluxLateAction``.
    ///
    /// - Parameter action: The change to make.
    @inlinable public func send(_ action: Converter.Action) {
        // Relaxed: the thread that ended it sees that, and so does one that has seen an effect of the next attempt; for
        // any other thread, the end may come right after.
        if !hasEnded.load(ordering: .relaxed), task.dispatch({ creator.destination(action) }) { return }
        if !task.isCancelled { creator.report(FluxLateAction(action: "\(action)"), first) }
    }

    /// Runs asynchronous work for the conversion in a Swift task that is cancelled with the event.
    ///
    /// The work runs on the calling thread until it first suspends; on Apple's systems before version 26 it starts in
    /// its turn on ``queue``. Work that is started one after the other on one serial queue therefore keeps its order
    /// (C3).
    ///
    /// - Parameter body: The work. It may end the conversion; otherwise the release of the last reference does.
    @inlinable @inline(__always) public func perform(_ body: @escaping @Sendable () async -> Void) {
        if #available(macOS 26.0, iOS 26.0, tvOS 26.0, watchOS 26.0, visionOS 26.0, *) {
            _Concurrency.Task.immediate {
                self.noteRunner()
                await body()
            }
        } else {
            // Older systems start it in its turn on the same queue, which it prefers throughout.
            _Concurrency.Task(executorPreference: FluxQueueExecutor(queue)) {
                self.noteRunner()
                await body()
            }
        }
    }

    /// Registers the calling Swift task to be cancelled with the conversion's task.
    @usableFromInline func noteRunner() { if let runner = fluxRunningTask() { onCancel { runner.cancel() } } }

    /// Calls a closure when the task is cancelled, on the thread that cancels it, or at once if it already was.
    ///
    /// - Parameter body: Stops the work under way. The cancel returns only after it, so it must not wait.
    ///   It is released at the end, so it must not keep the conversion, which would never end.
    public func onCancel(_ body: @escaping @Sendable () -> Void) { task.onCancel(body) }

    /// Ends the conversion with no last action.
    ///
    /// Separate from `end`, where an optional action of a generic type costs more than all the rest.
    @usableFromInline func complete() {
        if !hasEnded.exchange(true, ordering: .relaxed) { task.end(.completed) }
    }

    /// Ends the conversion; a second call does nothing.
    ///
    /// If a scheduler of the creator retries a failed conversion, the last action is not sent. Otherwise the last
    /// action, the creator's `onFailure` and the end are one atomic step: a cancel comes either before it or too late.
    ///
    /// - Parameters:
    ///   - outcome: How the conversion ended; `dropped` counts as `cancelled`, because the conversion has started.
    ///   - last: The action to send with the end, if any.
    public func end(_ outcome: FluxTask.Outcome, sending last: Converter.Action? = nil) { end(outcome) { last } }

    /// Ends the conversion with an action that is computed only if it is sent.
    @usableFromInline func end(_ outcome: FluxTask.Outcome, last: () -> Converter.Action?) {
        // Stops the program if the conversion is shared.
        let event = event
        // Relaxed: it only picks the first caller; the lock of the task orders what follows.
        if hasEnded.exchange(true, ordering: .relaxed) { return }
        if let ticket, let error = outcome.error {
            let tell = { [creator, attempt, task, event] in creator.tellRetried(event, attempt, error, task) }
            if ticket.funnel.retries(ticket, error, tell) { return }
        }
        task.end(outcome) {
            let last = last()
            if let last { creator.destination(last) }
            if let error = outcome.error { creator.report(error, event, isHandled: last != nil) }
            return last != nil
        }
    }
}

/// The data that a conversion is created from when its turn comes.
///
/// It does not include the creator: two threads that count the references to one object for each event cost more than
/// all the rest.
@usableFromInline nonisolated struct FluxDueEvent<Event: FluxEvent>: Sendable {
    @usableFromInline let task: FluxTask
    @usableFromInline let first: Event
    /// All events that were fired together and share the conversion; empty if the first event has it alone.
    @usableFromInline let shared: [Event]
    /// The queue given to `fire`; nil: the creator's own queue.
    @usableFromInline let queue: DispatchQueue?
    /// The event's ticket for the schedulers; nil if there are none.
    @usableFromInline let ticket: FluxTicket?

    @inlinable init(
        _ task: FluxTask, _ first: Event, sharedBy shared: [Event] = [], on queue: DispatchQueue?,
        _ ticket: FluxTicket? = nil
    ) { (self.task, self.first, self.shared, self.queue, self.ticket) = (task, first, shared, queue, ticket) }
}
