import Explorer

extension _Concurrency.Task {
    /// Cancels the task.
    ///
    /// It takes precedence over the runtime's own in the sources that are compiled here. That runs what is to be done at a
    /// cancel with a lock of its own held, which the explorer does not know.
    nonisolated func cancel() { Explorer.shared.unbroken { cancelled(self) } }
}
