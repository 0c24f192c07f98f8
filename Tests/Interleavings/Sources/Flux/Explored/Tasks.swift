import Explorer

// Calls on Swift tasks that would bypass the hook of the runtime; the members here take precedence over the runtime's.

extension _Concurrency.Task {
    /// Cancels the task, as `Task.cancel()` does.
    nonisolated public func cancel() { cancelUnbroken(self) }
}

extension _Concurrency.Task where Success == Never, Failure == Never {
    /// Lets other tasks continue, as `Task.yield()` does.
    nonisolated public static func yield() async { await yieldTask() }
}
