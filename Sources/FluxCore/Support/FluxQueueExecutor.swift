import Dispatch

/// Runs what a Swift task has to do on a queue.
@usableFromInline
nonisolated final class FluxQueueExecutor: _Concurrency.TaskExecutor {
    private let queue: DispatchQueue

    init(_ queue: DispatchQueue) {
        self.queue = queue
    }

    @usableFromInline
    func enqueue(_ job: consuming _Concurrency.ExecutorJob) {
        let job = _Concurrency.UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
