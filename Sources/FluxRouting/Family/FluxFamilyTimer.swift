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
