#if canImport(FluxCore)
    import FluxCore
#endif

/// The answer to one waiting caller; only the first answer counts, and a caller that gives up answers itself.
nonisolated final class FluxFamilyPromise<Value: Sendable>: Sendable {
    /// Open once there is an answer, or the waiting task is cancelled.
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

/// A clock of any kind; moments are measured from the creation of this value.
nonisolated struct FluxFamilyTimer: Sendable {
    /// A century: the system's clocks stop the program if they are given more than they can represent.
    static var longest: Swift.Duration { .seconds(Int64(3_000_000_000)) }

    let now: @Sendable () -> Swift.Duration
    /// Sleeps until a moment, or until the task is cancelled.
    let sleep: @Sendable (Swift.Duration) async -> Void

    init(_ clock: some _Concurrency.Clock<Swift.Duration>) {
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleep = { try? await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
    }
}
