#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// Makes each Swift task, up to where it suspends, a line of control of the explorer.
///
/// The runtime has a hook for what is to run on no executor in particular, and one for what is to run later: the latter may
/// run at any moment, so that what sleeps wakes between any two steps.
enum SwiftTasks {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void
    private typealias LateOriginal = @convention(thin) (Int64, Int64, Int64, Int64, Int32, UnownedJob) -> Void
    private typealias LateHook = @convention(thin) (Int64, Int64, Int64, Int64, Int32, UnownedJob, LateOriginal) -> Void

    /// Has the explorer run all tasks from now on.
    static func capture() {
        symbol("swift_task_enqueueGlobal_hook").assumingMemoryBound(to: Hook?.self).pointee = { job, _ in
            SwiftTasks.enqueue(job)
        }
        symbol("swift_task_enqueueGlobalWithDeadline_hook").assumingMemoryBound(to: LateHook?.self).pointee = {
            _, _, _, _, _, job, _ in SwiftTasks.enqueue(job)
        }
    }

    private static func symbol(_ name: String) -> UnsafeMutableRawPointer {
        guard let symbol = dlsym(dlopen(nil, RTLD_LAZY), name) else { fatalError("the Swift runtime has no \(name)") }
        return symbol
    }

    /// No executor in particular, which the runtime writes as two zeros: from any other a task would leave at its first `await`.
    private static let nowhere = unsafeBitCast((UInt(0), UInt(0)), to: UnownedSerialExecutor.self)

    private static func enqueue(_ job: UnownedJob) {
        Explorer.shared.step(.wake, nil, Place("a Swift task", 0))
        Explorer.shared.spawn("a task", isTask: true) {
            job.runSynchronously(on: nowhere)
        }
    }
}

/// Cancels a task as the runtime does.
public func cancelled<Success, Failure>(_ task: Task<Success, Failure>) { task.cancel() }
