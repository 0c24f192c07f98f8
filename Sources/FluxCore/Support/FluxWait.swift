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

/// A moment to sleep until, counted from where it was made: a clock that is moved on by hand may be moved right after.
///
/// A century away at most: the clocks of the system stop the program where they are given more than they can count, such
/// as `.seconds(.max)` for "never".
@usableFromInline
nonisolated struct FluxDeadline: Sendable {
    private let sleep: @Sendable () async throws -> Void

    @usableFromInline
    init(in duration: Swift.Duration, on clock: any _Concurrency.Clock<Swift.Duration>) {
        sleep = Self.sleep(for: Swift.min(duration, .seconds(3_000_000_000)), on: clock)
    }

    /// Sleeps until then.
    @usableFromInline
    func reached() async throws {
        try await sleep()
    }

    private static func sleep<Clock: _Concurrency.Clock<Swift.Duration>>(
        for duration: Swift.Duration, on clock: Clock
    ) -> @Sendable () async throws -> Void {
        let end = clock.now.advanced(by: duration)
        return { try await clock.sleep(until: end, tolerance: nil) }
    }
}
