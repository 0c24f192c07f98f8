import FluxCore

/// A clock that stands still until a test moves it, and that lets the test wait for sleepers.
public final class TestClock: Clock {
    /// A moment, as the time since the clock was created.
    public struct Instant: InstantProtocol {
        var offset: Duration
        /// Returns the moment that is later by a duration.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        /// Returns the duration to another moment.
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        /// Returns whether one moment is before another.
        public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
    }

    private struct Sleeper {
        let id: Int
        let deadline: Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Sleeper] = []
        var cancelled: Set<Int> = []
        var lastID = 0
        var waiting: [(count: Int, gate: Gate)] = []

        mutating func takeDue() -> [Gate] {
            let due = waiting.filter { $0.count <= sleepers.count }.map(\.gate)
            waiting.removeAll { $0.count <= sleepers.count }
            return due
        }
    }

    private let state = Locked(State())

    /// Creates a clock without sleepers.
    public init() {}

    /// The time to which the test has moved the clock.
    public var now: Instant { state.withLock { $0.now } }
    /// How many sleeps have begun.
    public var sleeps: Int { state.withLock { $0.lastID } }
    /// At least as fine as any duration in a test.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Sleeps until the test has moved the time to a moment, or the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        // Shows ThreadSanitizer that the handler below, or the thread that moved the time, is done with this sleep.
        defer { state.withLock { _ in } }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let due = state.withLock { state -> [Gate]? in
                    if state.cancelled.remove(id) != nil || deadline <= state.now { return nil }
                    state.sleepers.append(Sleeper(id: id, deadline: deadline, continuation: continuation))
                    return state.takeDue()
                }
                guard let due else {
                    return Task.isCancelled ? continuation.resume(throwing: CancellationError()) : continuation.resume()
                }
                due.forEach { $0.open() }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                guard let index = state.sleepers.firstIndex(where: { $0.id == id }) else {
                    state.cancelled.insert(id)
                    return nil
                }
                return state.sleepers.remove(at: index)
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Waits until at least this many tasks sleep at once.
    public func sleepers(_ count: Int) async {
        let gate = Gate()
        state.withLock { state in
            if state.sleepers.count >= count { gate.open() } else { state.waiting.append((count, gate)) }
        }
        await gate.opened()
    }

    /// Moves the time forward and wakes the tasks whose deadline has passed.
    public func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.deadline <= state.now }
            state.sleepers.removeAll { $0.deadline <= state.now }
            return due
        }
        due.sorted { $0.deadline < $1.deadline }.forEach { $0.continuation.resume() }
    }
}

/// A clock that records each sleep that has ended.
public final class WakingClock: Clock {
    /// The clock it is based on.
    public let base = TestClock()
    /// One entry for each sleep that has ended.
    public let awake = Recorder<Bool>()

    /// Creates a clock at time zero.
    public init() {}

    /// The current time of the base.
    public var now: TestClock.Instant { base.now }
    /// The resolution of the base.
    public var minimumResolution: Duration { base.minimumResolution }

    /// Sleeps on the base.
    public func sleep(until deadline: TestClock.Instant, tolerance: Duration?) async throws {
        defer { awake.record(true) }
        try await base.sleep(until: deadline, tolerance: tolerance)
    }
}
