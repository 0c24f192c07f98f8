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

/// Does what can be cancelled, until a moment that is counted from here: a clock that is moved on by hand may be moved right after.
nonisolated func fluxWithin<Clock: _Concurrency.Clock<Swift.Duration>>(
    _ duration: Swift.Duration, on clock: Clock, _ body: @escaping @Sendable () async -> Bool
) async -> Bool {
    fluxRequire(
        duration >= .zero,
        "flush(within:) or shutdown(within:) was given a negative duration, \(duration). Give max(.zero, end - .now).")
    // A century at most: the clocks of the system stop the program where they are given more than they can count.
    let end = clock.now.advanced(by: Swift.min(duration, .seconds(Int64(3_000_000_000))))
    let working = _Concurrency.Task { await body() }
    // Not waited for: a clock of the user's may go on sleeping all the same.
    let sleeping = _Concurrency.Task {
        try? await clock.sleep(until: end, tolerance: nil)
        working.cancel()
    }
    defer { sleeping.cancel() }
    return await withTaskCancellationHandler {
        await working.value
    } onCancel: {
        working.cancel()
    }
}
