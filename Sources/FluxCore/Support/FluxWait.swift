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

/// Sleeps, and for a century at most: the clocks of the system stop the program where they are given more than they can
/// count, such as `.seconds(.max)` for "never".
@usableFromInline
nonisolated func fluxSleep(_ duration: Swift.Duration, on clock: any _Concurrency.Clock<Swift.Duration>) async throws {
    try await clock.sleep(for: Swift.min(duration, .seconds(3_000_000_000)))
}
