#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// Makes each Swift task, up to where it suspends, a line of control of the explorer: the runtime has a hook for what is to run
/// on no executor in particular.
enum SwiftTasks {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void

    /// Has the explorer run all tasks from now on.
    static func capture() {
        symbol("swift_task_enqueueGlobal_hook").assumingMemoryBound(to: Hook?.self).pointee = { job, _ in
            Explorer.shared.enqueue(job)
        }
    }

    private static func symbol(_ name: String) -> UnsafeMutableRawPointer {
        guard let symbol = dlsym(dlopen(nil, RTLD_LAZY), name) else { fatalError("the Swift runtime has no \(name)") }
        return symbol
    }

    /// No executor in particular, which the runtime writes as two zeros: from any other a task would leave at its first `await`.
    private static let nowhere = unsafeBitCast((UInt(0), UInt(0)), to: UnownedSerialExecutor.self)

    static func run(_ job: UnownedJob) { job.runSynchronously(on: nowhere) }
}

/// Cancels a task; unbroken, for the runtime holds a lock of its own while it runs what is to be done at a cancel.
public func cancelUnbroken<Success, Failure>(_ task: Task<Success, Failure>) {
    Explorer.shared.unbroken { task.cancel() }
}

/// Lets other tasks go on, as `Task.yield()` does, which has a way past the hook.
public func yieldTask() async {
    await withUnsafeContinuation { continuation in
        Explorer.shared.spawnTask("a task that gave way") { continuation.resume() }
    }
}
