/// What work elsewhere has come to, for a task that may give up waiting for it.
nonisolated final class FluxAnswer<Value: Sendable>: Sendable {
    private let latch = FluxLatch()
    private let result = FluxLock<Swift.Result<Value, any Error>?>(nil)

    init() {
        latch.enter()
    }

    func give(_ answer: Swift.Result<Value, any Error>) {
        result.withLock { $0 = answer }
        latch.leave()
    }

    /// Waits for the answer; nil: the task that waits was cancelled before there was one.
    func wait() async -> Swift.Result<Value, any Error>? {
        await latch.wait()
        return result.withLock { $0 }
    }

    /// Waits for the answer, also in a task that is cancelled.
    func waitToTheEnd() async -> Swift.Result<Value, any Error>? {
        await latch.waitToTheEnd()
        return result.withLock { $0 }
    }
}
