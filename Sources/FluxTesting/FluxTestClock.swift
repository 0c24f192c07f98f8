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

    private struct Sleeper {
        let id: UInt64
        let deadline: Instant
        let continuation: _Concurrency.CheckedContinuation<Void, any Error>
    }

    private struct Machine {
        var now = Instant(offset: .zero)
        var sleepers: [Sleeper] = []
        /// Those who are about to sleep, or asleep; who is not among them is to wake at once.
        var pending: Set<UInt64> = []
        var lastID: UInt64 = 0
        var waiters = FluxList<(count: Int, latch: FluxLatch)>()

        mutating func makeID() -> UInt64 {
            lastID += 1
            return lastID
        }
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
        let id = lock.withLock { machine in
            let id = machine.makeID()
            machine.pending.insert(id)
            return id
        }
        // ThreadSanitizer sees by it that the handler below, or who moved the time, is done with this.
        defer { lock.withLock { _ = $0.pending.remove(id) } }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                fall(asleep: Sleeper(id: id, deadline: deadline, continuation: continuation))
            }
        } onCancel: {
            let sleeper = lock.withLock { machine -> Sleeper? in
                machine.pending.remove(id)
                return machine.sleepers.firstIndex { $0.id == id }.map { machine.sleepers.remove(at: $0) }
            }
            sleeper?.continuation.resume(throwing: _Concurrency.CancellationError())
        }
    }

    private func fall(asleep sleeper: Sleeper) {
        let (isDue, isPending, told) = lock.withLock { machine in
            let isDue = sleeper.deadline <= machine.now
            let isPending = machine.pending.contains(sleeper.id)
            if isPending && !isDue { machine.sleepers.append(sleeper) }
            let count = machine.sleepers.count
            return (isDue, isPending, machine.waiters.removeAll { $0.count <= count })
        }
        for waiter in told { waiter.latch.leave() }
        if !isPending {
            sleeper.continuation.resume(throwing: _Concurrency.CancellationError())
        } else if isDue {
            sleeper.continuation.resume()
        }
    }

    /// Waits until so many sleep at once, or the task is cancelled.
    ///
    /// - Parameter count: How many.
    public func sleepers(_ count: Int) async {
        await FluxLatch.wait { latch in
            lock.withLock { machine -> UInt64? in
                if machine.sleepers.count >= count { return nil }
                latch.enter()
                let id = machine.makeID()
                machine.waiters.insert((count, latch), id: id)
                return id
            }
        } withdrawing: { id in
            lock.withLock { _ = $0.waiters.remove(id: id) }
        }
    }

    /// Moves the time on, and wakes those whose moment has come in the order of their moments.
    ///
    /// - Parameter duration: How far.
    public func advance(by duration: Swift.Duration) {
        let due = lock.withLock { machine in
            machine.now = machine.now.advanced(by: duration)
            let now = machine.now
            let due = machine.sleepers.filter { $0.deadline <= now }
            machine.sleepers.removeAll { $0.deadline <= now }
            return due
        }
        for sleeper in due.sorted(by: { $0.deadline < $1.deadline }) { sleeper.continuation.resume() }
    }
}
