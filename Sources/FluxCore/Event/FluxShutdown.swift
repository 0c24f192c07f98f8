import Synchronization

/// Counts what became of the events of a creator, without a lock.
nonisolated struct FluxCounts: ~Copyable, Sendable {
    private let completed = Synchronization.Atomic<Int>(0)
    private let cancelled = Synchronization.Atomic<Int>(0)
    private let dropped = Synchronization.Atomic<Int>(0)

    func count(_ outcome: FluxTask.Outcome, _ events: Int) {
        switch outcome {
        case .completed, .failed: completed.add(events, ordering: .relaxed)
        case .cancelled: cancelled.add(events, ordering: .relaxed)
        case .dropped: dropped.add(events, ordering: .relaxed)
        }
    }

    var totals: FluxShutdown {
        FluxShutdown(
            completed: completed.load(ordering: .relaxed), cancelled: cancelled.load(ordering: .relaxed),
            dropped: dropped.load(ordering: .relaxed))
    }

    /// How many events have ended, one way or the other.
    var ended: Int {
        completed.load(ordering: .relaxed) + cancelled.load(ordering: .relaxed) + dropped.load(ordering: .relaxed)
    }
}

/// What became of the events of a creator, by count.
///
/// Thread safety: a value.
nonisolated public struct FluxShutdown: Sendable, Equatable {
    /// Those that ran to their end, failed ones included.
    public let completed: Int
    /// Those that were cancelled, by hand, by a rule or at the deadline.
    public let cancelled: Int
    /// Those that never started: refused by a rule, or fired after the shutdown had begun.
    public let dropped: Int
}
