import Dispatch
import Synchronization

/// One run of a converter: an event, what it may use, and how its actions and its end are told.
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
///     static func convert(event: Event, dependency: Dependency, actionHandler: @escaping @Sendable (Action) -> Void) {}
///     static func start(_ conversion: FluxConversion<Self>) {
///         conversion.perform {
///             for await action in actions(for: conversion.event, dependency: conversion.dependency) { conversion.send(action) }
///         }
///     }
/// }
/// ```
///
/// Released without an end it has completed.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxConversion<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let creator: FluxActionCreator<Converter>
    /// The work that this is a part of.
    public let task: FluxTask
    /// Which attempt this is, counted from 1; what an earlier one begins to send after its end is refused (C9).
    public let attempt: Int
    @usableFromInline let first: Converter.Event
    @usableFromInline let shared: [Converter.Event]
    @usableFromInline let firedOn: DispatchQueue?
    @usableFromInline let ticket: FluxTicket?
    @usableFromInline let hasEnded = Synchronization.Atomic<Bool>(false)

    // Compiled into the client, and of single fields: else each event asks for the type of what is due.
    @inlinable init(_ creator: FluxActionCreator<Converter>, _ due: consuming FluxDueEvent<Converter.Event>) {
        (self.creator, task, first) = (creator, due.task, due.first)
        (shared, firedOn, ticket) = (due.shared, due.queue, due.ticket)
        attempt = due.ticket == nil ? 1 : due.task.attempt
    }

    deinit {
        // Relaxed: the last release orders all that was done before.
        if hasEnded.load(ordering: .relaxed) { return }
        if !FluxThreads.shared.current.pointee.mayHoldLock { return task.end(.completed) }
        // Let go of by a state, under the lock of its store: what looks on at events is called without one. Most are not, and come by
        // here for each event: they make no closure.
        FluxPureCode.after { [task] in task.end(.completed) }
    }

    // MARK: - What is converted

    /// The event that was fired.
    public var event: Converter.Event {
        fluxRequire(
            task.count == 1,
            "\(Converter.self) shares a conversion among the events that were fired together, and asked for the one event of "
                + "it, or ended it by hand. Say `static var sharesConversions: Bool { false }`, or use forEachEvent.")
        return first
    }

    /// Calls a closure with each event of the conversion, in order, until the work is cancelled.
    ///
    /// - Parameter body: Converts one.
    @inlinable public func forEachEvent(_ body: (Converter.Event) -> Void) {
        if shared.isEmpty { return body(first) }
        for event in shared where !isOver { body(event) }
    }

    /// What the creator was made with.
    @inlinable public var dependency: Converter.Dependency { creator.dependency }

    /// The serial queue that it starts on, or the queue given to `fire`.
    public var queue: DispatchQueue { firedOn ?? creator.account.queue }

    // Relaxed: who has ended it knows, and to anybody else it may happen right after.
    /// Whether it has ended, or its work has.
    public var isOver: Bool { hasEnded.load(ordering: .relaxed) || task.isClosed }

    // MARK: - What comes of it

    /// Dispatches an action, unless the work was cancelled; when it returns, the action has been applied (C2, C9).
    ///
    /// Called after the end of the conversion it dispatches nothing, and `onFailure` of the creator gets a ``FluxLateAction``.
    ///
    /// - Parameter action: The change to make.
    @inlinable public func send(_ action: Converter.Action) {
        // Relaxed: who has ended it knows, or who has seen what came of the next attempt; to anybody else it may come right after.
        if !hasEnded.load(ordering: .relaxed), task.dispatch({ creator.destination(action) }) { return }
        if !task.isCancelled { creator.report(FluxLateAction(action: "\(action)"), first) }
    }

    /// Runs asynchronous work for the conversion in a Swift task that is cancelled with the event.
    ///
    /// It runs on the calling thread up to where it first suspends: that keeps the order of what is started one after the other
    /// on one serial queue (C3).
    ///
    /// - Parameter body: The work; the conversion ends where this says so, or else once nobody has it any more.
    @inlinable @inline(__always) public func perform(_ body: @escaping @Sendable () async -> Void) {
        if #available(macOS 26.0, iOS 26.0, tvOS 26.0, watchOS 26.0, visionOS 26.0, *) {
            _Concurrency.Task.immediate {
                self.noteRunner()
                await body()
            }
        } else {
            // Older systems start it in its turn on the same queue, which it prefers all along.
            _Concurrency.Task(executorPreference: FluxQueueExecutor(queue)) {
                self.noteRunner()
                await body()
            }
        }
    }

    /// Has the Swift task that calls this cancelled with the work.
    @usableFromInline func noteRunner() { if let runner = fluxRunningTask() { onCancel { runner.cancel() } } }

    /// Has a closure called where the work is cancelled; at once if it was.
    ///
    /// - Parameter body: Ends what is under way; let go of at the end, and so not to keep the conversion, which would never end.
    public func onCancel(_ body: @escaping @Sendable () -> Void) { task.onCancel(body) }

    /// Ends the conversion with nothing more to send; apart from `end`, where an optional action of a generic type costs more than
    /// all the rest.
    @usableFromInline func complete() {
        if !hasEnded.exchange(true, ordering: .relaxed) { task.end(.completed) }
    }

    /// Ends the conversion; a second call does nothing.
    ///
    /// A failed one may be tried again, if a scheduler of the creator says so: then its last action is not sent. Otherwise the last
    /// action, the `onFailure` of the creator and the end are one step: who cancels the work comes before that, or too late.
    ///
    /// - Parameters:
    ///   - outcome: How it ended; `dropped` is taken for `cancelled`, as it has started.
    ///   - last: The action that goes with it, if any.
    public func end(_ outcome: FluxTask.Outcome, sending last: Converter.Action? = nil) { end(outcome) { last } }

    /// Ends it with an action that is asked for only where it is sent.
    @usableFromInline func end(_ outcome: FluxTask.Outcome, last: () -> Converter.Action?) {
        // Relaxed: it only picks the first; what follows is ordered by the lock of the task.
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

/// What a conversion is made of once its turn has come.
///
/// Without the creator: two threads that count the references to one object, for each event, take longer than all the rest.
@usableFromInline nonisolated struct FluxDueEvent<Event: FluxEvent>: Sendable {
    @usableFromInline let task: FluxTask
    @usableFromInline let first: Event
    /// All events that were fired together and share it; empty: the first has it for itself.
    @usableFromInline let shared: [Event]
    /// Where it was fired on; nil: on the creator's own queue.
    @usableFromInline let queue: DispatchQueue?
    /// What the schedulers know it by; nil: there are none.
    @usableFromInline let ticket: FluxTicket?

    @inlinable init(
        _ task: FluxTask, _ first: Event, sharedBy shared: [Event] = [], on queue: DispatchQueue?,
        _ ticket: FluxTicket? = nil
    ) { (self.task, self.first, self.shared, self.queue, self.ticket) = (task, first, shared, queue, ticket) }
}
