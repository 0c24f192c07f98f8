/// A clock that stands still until a sleep is over, which may be at any moment: that is what the explorer decides.
public final class ScenarioClock: Clock, @unchecked Sendable {
    /// A moment.
    public struct Instant: InstantProtocol {
        let offset: Duration

        /// Compares two moments.
        public static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
        /// Goes on by so long.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        /// How long it is until another moment.
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

    /// The moment up to which sleeps are over.
    public private(set) var now = Instant(offset: .zero)
    /// How fine it is.
    public let minimumResolution = Duration.nanoseconds(1)

    private let isStopped: Bool

    /// Makes a clock.
    ///
    /// - Parameter isStopped: Whether no sleep is ever over, but by a cancel.
    public init(isStopped: Bool = false) { self.isStopped = isStopped }

    /// Sleeps until the explorer says that it is over, or the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
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
