#if canImport(FluxCore)
    import FluxCore
#endif

/// The answer to one waiting caller; only the first answer counts, and a caller that gives up answers itself.
nonisolated final class FluxFamilyPromise<Value: Sendable>: Sendable {
    /// Open once there is an answer, the waiting task is cancelled, or a shutdown's time is up.
    let latch = FluxLatch()
    private let first = FluxLock<Swift.Result<Value, any Swift.Error>?>(nil)

    /// The answer that counts; nil if there is none yet.
    var answer: Swift.Result<Value, any Swift.Error>? { first.withLock { $0 } }

    /// Gives an answer; returns false if there was one already.
    @discardableResult func give(_ answer: Swift.Result<Value, any Swift.Error>) -> Bool {
        let counts = first.withLock { first in
            defer { first = first ?? answer }
            return first == nil
        }
        latch.open()
        return counts
    }

    /// Waits for the answer, or until the task is cancelled.
    func wait() async throws -> Value {
        await latch.wait()
        give(.failure(_Concurrency.CancellationError()))
        return try answer!.get()
    }
}
