#if canImport(FluxCore)
    import FluxCore
#endif

/// What somebody who waits is told, unless he gave up first: of the answers the first counts.
nonisolated final class FluxFamilyPromise<Value: Sendable>: Sendable {
    /// Open once there is an answer.
    let latch = FluxLatch()
    private let first = FluxLock<Swift.Result<Value, any Swift.Error>?>(nil)

    /// What counts; nil: nobody has answered.
    var answer: Swift.Result<Value, any Swift.Error>? { first.withLock { $0 } }

    /// Answers; false: there was an answer.
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

/// A clock of any kind, from the moment that this is made.
nonisolated struct FluxFamilyTimer: Sendable {
    /// A century: the clocks of the system stop the program where they are given more than they can count.
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
