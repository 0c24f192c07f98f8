import Synchronization

/// One event being converted asynchronously: what its Swift task runs, and what `send` leads to.
///
/// One object for both, and for the event.
@usableFromInline
nonisolated final class FluxAsyncRun<Converter: FluxAsyncActionConverter>: Sendable {
    @usableFromInline let conversions: FluxConversions<Converter>
    /// Retained for this, which has to release it.
    @usableFromInline let task: Unmanaged<FluxTask>
    @usableFromInline let event: Converter.Event

    @inlinable
    init(_ conversions: FluxConversions<Converter>, _ task: Unmanaged<FluxTask>, _ event: Converter.Event) {
        self.conversions = conversions
        self.task = task
        self.event = event
    }

    deinit {
        task.release()
    }

    /// Starts a Swift task that runs on the calling thread up to where it first suspends.
    ///
    /// That keeps the order of what is started one after the other on one serial queue (C3).
    ///
    /// - Parameter executor: That of the queue this is called on, if it is not the creator's own.
    @inlinable
    func start(on executor: AnyObject?) {
        if #available(macOS 26.0, iOS 26.0, tvOS 26.0, watchOS 26.0, visionOS 26.0, *) {
            _Concurrency.Task.immediate { await self.run() }
        } else {
            // Older systems start it in its turn on the same queue, which it prefers all along.
            startLater(on: executor.map { unsafeDowncast($0, to: FluxQueueExecutor.self) })
        }
    }

    /// Starts a Swift task that runs on a queue.
    @usableFromInline
    func startLater(on executor: FluxQueueExecutor?) {
        _Concurrency.Task(executorPreference: executor ?? conversions.control.executor) { await self.run() }
    }

    @inlinable
    nonisolated(nonsending) func run() async {
        task._withUnsafeGuaranteedRef { task in
            withUnsafeCurrentTask { task.note(runner: $0) }
        }
        if conversions.rules.isEmpty {
            await attempt()
        } else {
            await task.takeUnretainedValue().asConversion { await self.attempt() }
        }
        task._withUnsafeGuaranteedRef { $0.letRunnerGo() }
    }

    /// Calls the converter, again and again where a rule says so.
    @inlinable
    nonisolated(nonsending) func attempt() async {
        var failures = 0
        while true {
            do {
                try await Converter.convert(event: event, dependency: conversions.dependency) { self.send($0) }
                if !task._withUnsafeGuaranteedRef({ $0.end(.completed) }) { reportCycle() }
                return
            } catch {
                failures += 1
                if await isOver(failures, error) { return }
            }
        }
    }

    /// Sees to a failure: waits for the next attempt, or ends the task.
    @usableFromInline
    nonisolated(nonsending) func isOver(_ failures: Int, _ error: any Error) async -> Bool {
        let task = task.takeUnretainedValue()
        if task.hasEnded {
            reportCycle()
            return true
        }
        if let delay = conversions.delay(after: failures, event) {
            // Made before anybody hears of it.
            let pause = FluxDeadline(in: delay, on: conversions.control.clock)
            task.retry(after: failures, error)
            conversions.watchers()?.tellRetried(
                conversions.shown(event), attempt: failures, error: error, origin: task.origin)
            // Cut short only by the end of the task.
            try? await pause.reached()
            return task.hasEnded
        }
        let action = Converter.action(for: error, event: event)
        let hasFailed = task.fail(error, dispatching: action.map { action in { self.conversions.send(action) } }) {
            conversions.watchers()?.tellFailed(conversions.shown(event), error: error, origin: task.origin)
            conversions.report(error, event, isHandled: action != nil)
        }
        // It was ended while it threw.
        if !hasFailed { reportCycle() }
        return true
    }

    /// Tells of a wait in a circle that the task was ended for while its conversion ran.
    @usableFromInline
    func reportCycle() {
        let error = task._withUnsafeGuaranteedRef { $0.error }
        if let error { conversions.report(error, event) }
    }

    @inlinable
    func send(_ action: Converter.Action) {
        task._withUnsafeGuaranteedRef { task in
            if let entry = task.enter() {
                conversions.send(action)
                task.leave(entry)
            } else if !task.isCancelled && !task.isInCycle {
                conversions.report(FluxLateAction(action: "\(action)"), event)
            }
        }
    }
}
