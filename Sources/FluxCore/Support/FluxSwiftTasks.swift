import Dispatch

/// Runs what a Swift task has to do on a queue.
@usableFromInline nonisolated final class FluxQueueExecutor: _Concurrency.TaskExecutor {
    private let queue: DispatchQueue

    @usableFromInline init(_ queue: DispatchQueue) { self.queue = queue }

    @usableFromInline func enqueue(_ job: consuming _Concurrency.ExecutorJob) {
        let job = _Concurrency.UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// The Swift task that calls this, to be cancelled by whoever keeps it; nil outside of any.
@usableFromInline nonisolated func fluxRunningTask() -> _Concurrency.Task<Void, Never>? {
    // Both are one reference to the task; the cast retains it.
    withUnsafeCurrentTask { $0.map { unsafeBitCast($0, to: _Concurrency.Task<Void, Never>.self) } }
}
