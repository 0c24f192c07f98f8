/// Waits until a condition holds that another thread is about to bring about, and returns whether it does.
///
/// It looks again and again, and gives up late: when the task is cancelled, as by the time limit of a test, or after some
/// minutes.
public func becomes(_ isTrue: () -> Bool) async -> Bool {
    for _ in 0..<60_000 where !Task.isCancelled {
        if isTrue() { return true }
        try? await Task.sleep(for: .milliseconds(5))
    }
    return isTrue()
}
