import Dispatch

/// Starts a task on the calling thread, which runs it up to where it first suspends.
///
/// That keeps the order of what is started one after the other on one serial queue (C3).
///
/// - Parameters:
///   - queue: The queue that this is called on.
///   - body: The work.
nonisolated func fluxStartTask(
    on queue: DispatchQueue, _ body: @escaping @Sendable @concurrent () async -> Void
) -> _Concurrency.Task<Void, Never> {
    if #available(macOS 26.0, iOS 26.0, tvOS 26.0, watchOS 26.0, visionOS 26.0, *) {
        return _Concurrency.Task.immediate(operation: body)
    }
    return fluxStartTaskSoon(on: queue, body)
}

/// The same for older systems: the task starts in its turn on the queue, which it prefers all along.
nonisolated func fluxStartTaskSoon(
    on queue: DispatchQueue, _ body: @escaping @Sendable @concurrent () async -> Void
) -> _Concurrency.Task<Void, Never> {
    _Concurrency.Task(executorPreference: FluxQueueExecutor(queue: queue), operation: body)
}

/// Runs what a task has to do on a queue.
nonisolated private final class FluxQueueExecutor: _Concurrency.TaskExecutor {
    let queue: DispatchQueue

    init(queue: DispatchQueue) {
        self.queue = queue
    }

    func enqueue(_ job: consuming _Concurrency.ExecutorJob) {
        let job = _Concurrency.UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
