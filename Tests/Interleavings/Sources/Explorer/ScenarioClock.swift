/// A clock that stands still until a sleep is over, which the explorer decides and may do at any moment.
public final class ScenarioClock: Clock, @unchecked Sendable {
    /// A moment.
    public struct Instant: InstantProtocol {
        let offset: Duration

        /// Returns whether one moment is before another.
        public static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
        /// Returns the moment that is later by a duration.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        /// Returns the duration to another moment.
        public func duration(to other: Instant) -> Duration { other.offset - offset }
    }

    private final class Sleeper: @unchecked Sendable {
        var continuation: CheckedContinuation<Void, Never>?
        var isOver = false

        func wake() {
            isOver = true
            let continuation = self.continuation
            self.continuation = nil
            continuation?.resume()
        }
    }

    /// The latest deadline of the sleeps that are over.
    public private(set) var now = Instant(offset: .zero)
    /// The resolution of the clock.
    public let minimumResolution = Duration.nanoseconds(1)

    private let isStopped: Bool

    /// Creates a clock.
    ///
    /// - Parameter isStopped: Whether the time stands still: a sleep ends only if it has no duration, or its task is
    ///   cancelled.
    public init(isStopped: Bool = false) { self.isStopped = isStopped }

    /// Sleeps until the explorer ends the sleep, or the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        if isStopped && deadline <= now { return }
        let sleeper = Sleeper()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if sleeper.isOver { return continuation.resume() }
                sleeper.continuation = continuation
                if self.isStopped { return }
                Explorer.shared.spawnTask("the clock") {
                    if sleeper.isOver { return }
                    self.now = max(self.now, deadline)
                    sleeper.wake()
                }
            }
        } onCancel: {
            sleeper.wake()
        }
        try Task.checkCancellation()
    }
}
