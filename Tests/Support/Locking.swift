import FluxCore
import Foundation

/// Runs a body while another thread keeps a store's lock, as a `handle` does that takes long.
///
/// What the body calls must not wait for that lock: otherwise the thread stops the program after five minutes.
public func whileLocked<State>(
    _ handle: FluxStoreHandle<State>, _ body: () async throws -> Void
) async rethrows {
    let (locked, done) = (Gate(), Gate())
    let thread = Thread {
        handle.withAccess { _ in
            locked.open()
            done.wait()
        }
    }
    thread.start()
    await locked.opened()
    defer { done.open() }
    try await body()
}

/// An executor that runs each job at once, on the thread that resumes it.
public final class InlineExecutor: TaskExecutor {
    /// Creates an executor.
    public init() {}

    /// Runs the job.
    public func enqueue(_ job: consuming ExecutorJob) {
        UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
    }
}
