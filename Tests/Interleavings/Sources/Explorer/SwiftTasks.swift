#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// Makes each Swift task, up to its next suspension, a virtual thread of the explorer.
///
/// The runtime has a hook for jobs that may run on any executor.
enum SwiftTasks {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void

    /// Makes the explorer run all tasks from now on.
    static func capture() {
        symbol("swift_task_enqueueGlobal_hook").assumingMemoryBound(to: Hook?.self).pointee = { job, _ in
            Explorer.shared.enqueue(job)
        }
    }

    private static func symbol(_ name: String) -> UnsafeMutableRawPointer {
        guard let symbol = dlsym(dlopen(nil, RTLD_LAZY), name) else { fatalError("the Swift runtime has no \(name)") }
        return symbol
    }

    /// The executor for jobs without a particular one, two zeros in the runtime; from any other a task would leave at
    /// its first `await`.
    private static let nowhere = unsafeBitCast((UInt(0), UInt(0)), to: UnownedSerialExecutor.self)

    static func run(_ job: UnownedJob) { job.runSynchronously(on: nowhere) }
}

/// Cancels a task without interruption, because the runtime holds its own lock while it runs cancellation handlers.
public func cancelUnbroken<Success, Failure>(_ task: Task<Success, Failure>) {
    Explorer.shared.unbroken { task.cancel() }
}

/// Lets other tasks continue; `Task.yield()` does the same, but bypasses the hook.
public func yieldTask() async {
    await withUnsafeContinuation { continuation in
        Explorer.shared.spawnTask("a task that yielded") { continuation.resume() }
    }
}
