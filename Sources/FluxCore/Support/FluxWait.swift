import Dispatch

/// Waits until a condition holds, but not longer than a limit; for moments that are over in a microsecond as a rule.
///
/// Nobody can signal these moments without slowing down the hot path that they are part of, so this looks again and again.
nonisolated func fluxWait(upTo limit: DispatchTimeInterval, until condition: () -> Bool) {
    if condition() { return }
    let deadline = DispatchTime.now() + limit
    let never = DispatchSemaphore(value: 0)
    while !condition() && DispatchTime.now() < deadline { _ = never.wait(timeout: .now() + .microseconds(20)) }
}

/// Starts a task on the calling thread, which runs it up to where it first suspends.
///
/// That keeps the order of what is started one after the other on one queue (C3), where the system can do it; older
/// Apple systems cannot, and start it soon.
nonisolated func fluxStartTask(
    _ priority: _Concurrency.TaskPriority?, _ body: @escaping @Sendable @concurrent () async -> Void
) -> _Concurrency.Task<Void, Never> {
    if #available(macOS 26.0, iOS 26.0, tvOS 26.0, watchOS 26.0, visionOS 26.0, *) {
        return _Concurrency.Task.immediate(priority: priority, operation: body)
    }
    return _Concurrency.Task(priority: priority, operation: body)
}
