import FluxCore

/// A clock that stands still until a test moves it, and that tells when somebody has gone to sleep on it.
public final class TestClock: Clock {
    /// A moment, as the time since the clock was made.
    public struct Instant: InstantProtocol {
        var offset: Duration
        /// The moment so much later.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        /// How far it is to another moment.
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        /// Whether one moment is before another.
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

    /// A clock that nobody sleeps on.
    public init() {}

    /// How far the test has moved the time.
    public var now: Instant { state.withLock { $0.now } }
    /// How often it was slept on.
    public var sleeps: Int { state.withLock { $0.lastID } }
    /// As fine as any duration of a test.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Sleeps until the test has moved the time to a moment, or the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        // ThreadSanitizer sees by it that the handler below, or who moved the time, is done with this.
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

    /// Waits until so many sleep at once.
    public func sleepers(_ count: Int) async {
        let gate = Gate()
        state.withLock { state in
            if state.sleepers.count >= count { gate.open() } else { state.waiting.append((count, gate)) }
        }
        await gate.opened()
    }

    /// Moves the time on and wakes those whose deadline has come.
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

/// A clock that tells of each sleep that is over.
public final class WakingClock: Clock {
    /// What it goes by.
    public let base = TestClock()
    /// One for each sleep that is over.
    public let awake = Recorder<Bool>()

    /// A clock at its start.
    public init() {}

    /// What the base says.
    public var now: TestClock.Instant { base.now }
    /// That of the base.
    public var minimumResolution: Duration { base.minimumResolution }

    /// Sleeps as the base does.
    public func sleep(until deadline: TestClock.Instant, tolerance: Duration?) async throws {
        defer { awake.record(true) }
        try await base.sleep(until: deadline, tolerance: tolerance)
    }
}
