#if canImport(FluxCore)
    import FluxCore
#endif

/// A clock that stands still until a test moves it, and that lets a test wait for tasks to sleep on it.
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
        /// How far the clock has been moved by then.
        public var offset: Swift.Duration

        /// Creates a moment of the clock.
        ///
        /// - Parameter offset: How far the clock has been moved by then.
        public init(offset: Swift.Duration) { self.offset = offset }

        /// Returns the moment that is later by a duration.
        ///
        /// - Parameter duration: How much later.
        /// - Returns: The later moment.
        public func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }

        /// Returns the time from this moment to another.
        ///
        /// - Parameter other: The other moment.
        /// - Returns: The time between them.
        public func duration(to other: Instant) -> Swift.Duration { other.offset - offset }

        /// Returns whether a moment comes before another.
        ///
        /// - Parameters:
        ///   - one: The moment.
        ///   - other: The other moment.
        /// - Returns: True if it does.
        public static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
    }

    private struct Machine {
        var now = Instant(offset: .zero)
        /// Keyed by a rising number, so that removing a cancelled sleeper costs the others nothing.
        var sleepers: [UInt64: (deadline: Instant, latch: FluxLatch)] = [:]
        var lastNumber: UInt64 = 0
        /// Notified of the number of sleepers.
        var counts = FluxCounts()
    }

    private let lock = FluxLock(Machine())

    /// Creates a clock that stands at zero.
    public init() {}

    /// The moment that the clock has been moved to.
    public var now: Instant { lock.withLock { $0.now } }

    /// The shortest time that the clock distinguishes.
    public var minimumResolution: Swift.Duration { .nanoseconds(1) }

    /// Sleeps until the clock has been moved to a moment.
    ///
    /// - Parameters:
    ///   - deadline: The moment.
    ///   - tolerance: Ignored.
    /// - Throws: `CancellationError` if the task is cancelled before.
    public func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
        let latch = FluxLatch()
        let place = FluxLock(Place.none)
        await withTaskCancellationHandler {
            // Counted only once a cancellation finds it: a test that sees the sleeper may cancel it, and then move the
            // time on.
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
            // At once, and not when the task resumes: the time may be moved before that, and the task sleeps no longer.
            lock.withLock { machine in
                place.withLock { place in
                    // A sleeper that was woken before has slept to the end.
                    if case .asleep(let number) = place, machine.sleepers.removeValue(forKey: number) == nil { return }
                    place = .cancelled
                }
            }
        }
        if place.withLock({ $0 }) == .cancelled { throw _Concurrency.CancellationError() }
    }

    /// The place of a sleeper.
    private enum Place: Equatable { case none, asleep(UInt64), cancelled }

    /// Waits until a number of tasks sleep at once, or the calling task is cancelled.
    ///
    /// - Parameter count: The number.
    public func sleepers(_ count: Int) async { _ = await haveSlept(count) }

    /// Waits until a number of tasks sleep at once; returns false if the calling task was cancelled before.
    private func haveSlept(_ count: Int) async -> Bool {
        var haveSlept = true
        await FluxLatch.wait { latch in
            lock.withLock { $0.counts.wait(for: count, of: $0.sleepers.count, latch) }
        } withdrawing: { latch in
            haveSlept = lock.withLock { !$0.counts.withdraw(latch) }
        }
        return haveSlept
    }

    /// Waits for a number of sleeping tasks within a time limit, so that a test fails instead of hanging.
    ///
    /// - Parameters:
    ///   - count: The number.
    ///   - limit: The time limit, by the continuous clock.
    /// - Throws: ``FluxTestTimeout``, which says until when the present sleepers sleep; also if the task is cancelled.
    public func sleepers(_ count: Int, within limit: Swift.Duration) async throws(FluxTestTimeout) {
        try await FluxTestTimeout.wait(for: count, "sleepers", within: limit) {
            await self.haveSlept(count)
        } there: {
            self.lock.withLock { $0.sleepers.values.map { "until \($0.deadline.offset)" }.sorted() }
        }
    }

    /// Advances the clock in one step, and wakes the sleepers whose deadlines have come, in the order of the deadlines.
    ///
    /// The woken tasks resume as tasks do: later, concurrently and in any order, and all of them see the new moment. A
    /// task that sleeps again counts from that moment. In a series of sleeps, such as those between attempts, each
    /// advance therefore ends only one, however far it goes. Await ``sleepers(_:)`` and advance once for each.
    ///
    /// - Parameter duration: How far; a negative duration stops the program.
    /// - Complexity: O(*n* log *n*) for *n* sleepers.
    public func advance(by duration: Swift.Duration) {
        if duration < .zero { fatalError("FluxCore: FluxTestClock.advance: a clock cannot go backwards (\(duration))") }
        let due = lock.withLock { machine in
            machine.now = machine.now.advanced(by: duration)
            let due = machine.sleepers.filter { $0.value.deadline <= machine.now }
            for number in due.keys { machine.sleepers[number] = nil }
            return due
        }
        // Sleepers with the same deadline are woken in the order in which they went to sleep.
        for (_, sleeper) in due.sorted(by: { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }) {
            sleeper.latch.open()
        }
    }
}
