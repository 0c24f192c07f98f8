import Dispatch

/// Runs the jobs of a Swift task on a queue.
@usableFromInline nonisolated final class FluxQueueExecutor: _Concurrency.TaskExecutor {
    private let queue: DispatchQueue

    @usableFromInline init(_ queue: DispatchQueue) { self.queue = queue }

    @usableFromInline func enqueue(_ job: consuming _Concurrency.ExecutorJob) {
        let job = _Concurrency.UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Returns the Swift task that calls this, so that its keeper can cancel it; nil outside of any task.
@usableFromInline nonisolated func fluxRunningTask() -> _Concurrency.Task<Void, Never>? {
    // Both types are a single reference to the task; the cast retains it.
    withUnsafeCurrentTask { $0.map { unsafeBitCast($0, to: _Concurrency.Task<Void, Never>.self) } }
}

/// Runs cancellable work, and cancels it at a deadline.
///
/// The deadline is computed at once, because a clock that is moved by hand may be moved right after the call.
nonisolated func fluxWithin<Clock: _Concurrency.Clock<Swift.Duration>>(
    _ duration: Swift.Duration, on clock: Clock, _ body: @escaping @Sendable () async -> Bool
) async -> Bool {
    fluxRequire(
        duration >= .zero,
        "flush(within:) or shutdown(within:) was given a negative duration, \(duration). Give max(.zero, end - .now).")
    // At most about a century: the system's clocks stop the program if they are given more than they can count.
    let end = clock.now.advanced(by: Swift.min(duration, .seconds(Int64(3_000_000_000))))
    let working = _Concurrency.Task { await body() }
    // Not awaited: a user's clock may ignore the cancellation and keep sleeping.
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
