import Explorer

// What the sources call of Swift's tasks and the runtime does past its hooks: the members here come before its own.

extension _Concurrency.Task {
    /// As `Task.cancel()`.
    nonisolated public func cancel() { cancelUnbroken(self) }
}

extension _Concurrency.Task where Success == Never, Failure == Never {
    /// As `Task.yield()`.
    nonisolated public static func yield() async { await yieldTask() }
}
