#if canImport(FluxCore)
    import FluxCore
#endif

/// A clock that stands still until a test moves it, and that tells when somebody has gone to sleep on it.
///
/// ```swift
/// let clock = FluxTestClock()
/// let store = FluxStore(initialState: Todo(), persistence: file, loadTimeout: .seconds(5), clock: clock)
/// await clock.sleepers(1)
/// clock.advance(by: .seconds(5))
/// ```
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxTestClock: _Concurrency.Clock {
    /// A moment of the clock.
    ///
    /// Thread safety: a value.
    public struct Instant: Swift.InstantProtocol {
        /// How far the clock had been moved by then.
        public var offset: Swift.Duration

        /// A moment of the clock.
        ///
        /// - Parameter offset: How far the clock has been moved by then.
        public init(offset: Swift.Duration) { self.offset = offset }

        /// The moment so much later.
        ///
        /// - Parameter duration: How much.
        /// - Returns: The moment.
        public func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }

        /// How long it is from this moment to another.
        ///
        /// - Parameter other: The other.
        /// - Returns: How long.
        public func duration(to other: Instant) -> Swift.Duration { other.offset - offset }

        /// Whether a moment comes before another.
        ///
        /// - Parameters:
        ///   - one: The moment.
        ///   - other: The other.
        /// - Returns: True if it does.
        public static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
    }

    private struct Machine {
        var now = Instant(offset: .zero)
        /// By a number that rises: to take one out who was cancelled costs nothing of the others.
        var sleepers: [UInt64: (deadline: Instant, latch: FluxLatch)] = [:]
        var lastNumber: UInt64 = 0
        /// Told how many sleep.
        var counts = FluxCounts()
    }

    private let lock = FluxLock(Machine())

    /// Makes a clock that stands at zero.
    public init() {}

    /// The moment that it was moved to.
    public var now: Instant { lock.withLock { $0.now } }

    /// The shortest time that it tells apart.
    public var minimumResolution: Swift.Duration { .nanoseconds(1) }

    /// Sleeps until the clock has been moved to a moment.
    ///
    /// - Parameters:
    ///   - deadline: The moment.
    ///   - tolerance: Of no account.
    /// - Throws: `CancellationError` where the task is cancelled before.
    public func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
        let latch = FluxLatch()
        let place = FluxLock(Place.none)
        await withTaskCancellationHandler {
            // Counted only once a cancel finds it: whoever sees that it sleeps may cancel it, and move the time on then.
            let told = lock.withLock { machine -> ContiguousArray<FluxLatch>? in
                if deadline <= machine.now || place.withLock({ $0 }) == .cancelled { return nil }
                machine.lastNumber += 1
                machine.sleepers[machine.lastNumber] = (deadline, latch)
                place.withLock { $0 = .asleep(machine.lastNumber) }
                return machine.counts.tell(machine.sleepers.count)
            }
            guard let told else { return }
            for waiter in told { waiter.open() }
            await latch.wait()
        } onCancel: {
            // At once, and not when the task goes on: the time may be moved before that, and it sleeps no longer.
            lock.withLock { machine in
                place.withLock { place in
                    // One who was woken before has slept to the end.
                    if case .asleep(let number) = place, machine.sleepers.removeValue(forKey: number) == nil { return }
                    place = .cancelled
                }
            }
        }
        if place.withLock({ $0 }) == .cancelled { throw _Concurrency.CancellationError() }
    }

    /// Where a sleeper is.
    private enum Place: Equatable { case none, asleep(UInt64), cancelled }

    /// Waits until so many sleep at once, or the task is cancelled.
    ///
    /// - Parameter count: How many.
    public func sleepers(_ count: Int) async { _ = await haveSlept(count) }

    /// Waits until so many sleep at once; false: the task was cancelled before.
    private func haveSlept(_ count: Int) async -> Bool {
        var haveSlept = true
        await FluxLatch.wait { latch in
            lock.withLock { $0.counts.wait(for: count, of: $0.sleepers.count, latch) }
        } withdrawing: { latch in
            haveSlept = lock.withLock { !$0.counts.withdraw(latch) }
        }
        return haveSlept
    }

    /// Waits until so many sleep at once, for so long at most: where too few do, the test says so instead of hanging.
    ///
    /// - Parameters:
    ///   - count: How many.
    ///   - limit: How long, by the continuous clock.
    /// - Throws: Until when those sleep who do, also where the task was cancelled.
    public func sleepers(_ count: Int, within limit: Swift.Duration) async throws(FluxTestTimeout) {
        try await FluxTestTimeout.wait(for: count, "sleepers", within: limit) {
            await self.haveSlept(count)
        } there: {
            self.lock.withLock { $0.sleepers.values.map { "until \($0.deadline.offset)" }.sorted() }
        }
    }

    /// Moves the time on in one step, and wakes those whose moment has come in the order of their moments.
    ///
    /// They go on as tasks do: later, at the same time and in any order, and all of them find the new moment. So who goes to sleep
    /// again counts from that: of a row of sleeps, such as those between attempts, each advance ends one, however far it goes.
    /// Await ``sleepers(_:)`` and advance once for each.
    ///
    /// - Parameter duration: How far; a negative one stops the program.
    /// - Complexity: O(*n* log *n*) for *n* who sleep.
    public func advance(by duration: Swift.Duration) {
        if duration < .zero { fatalError("FluxCore: FluxTestClock.advance: a clock cannot go back (\(duration))") }
        let due = lock.withLock { machine in
            machine.now = machine.now.advanced(by: duration)
            let due = machine.sleepers.filter { $0.value.deadline <= machine.now }
            for number in due.keys { machine.sleepers[number] = nil }
            return due
        }
        // Of those with one moment the first who went to sleep wakes first.
        for (_, sleeper) in due.sorted(by: { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }) {
            sleeper.latch.open()
        }
    }
}
