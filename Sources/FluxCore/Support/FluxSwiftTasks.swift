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

/// What a task sleeps on until somebody resumes it, once.
///
/// With `-D FLUX_TSAN` it is a checked one. The `resume()` of an unsafe one is compiled into its caller, so the sanitizer
/// sees it read the memory of the task; but where it comes in the few instructions before the task sleeps, nothing tells
/// the sanitizer that the task goes on after that read.
#if FLUX_TSAN
    @usableFromInline typealias FluxContinuation = _Concurrency.CheckedContinuation<Void, Swift.Never>
#else
    @usableFromInline typealias FluxContinuation = _Concurrency.UnsafeContinuation<Void, Swift.Never>
#endif

/// Suspends the task until the continuation that a closure gets is resumed.
@inline(__always) func fluxSuspend(
    isolation actor: isolated (any _Concurrency.Actor)? = #isolation, _ body: (FluxContinuation) -> Void
) async {
    #if FLUX_TSAN
        await withCheckedContinuation(isolation: actor, body)
    #else
        await withUnsafeContinuation(isolation: actor, body)
    #endif
}
