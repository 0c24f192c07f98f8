import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// Takes turns on a queue to deliver the elements that wait.
@usableFromInline
nonisolated protocol FluxTurn: AnyObject, Sendable {
    /// Delivers the waiting elements; returns false if it paused and needs another turn.
    func takeTurn() -> Bool
}

/// The turns that are due on one queue; together they take up one block on it, however many they are.
///
/// | input    | idle        | due       | scheduled                                      |
/// |----------|-------------|-----------|------------------------------------------------|
/// | `add`    | due; settle | kept      | kept                                           |
/// | `settle` | nothing     | scheduled | nothing                                        |
/// | `run`    | -           | -         | all that wait, repeatedly; idle when none      |
@usableFromInline
nonisolated final class FluxTurns: FluxSettling {
    private struct Line {
        enum Phase { case idle, due, scheduled }

        var phase = Phase.idle
        var waiting: ContiguousArray<any FluxTurn> = []
    }

    private let queue: DispatchQueue
    @usableFromInline let isUsers: Bool
    private let line = FluxLock(Line())

    /// - Parameters:
    ///   - queue: The queue to take turns on; nil for a new serial queue.
    ///   - isUsers: Whether that queue belongs to the user.
    @usableFromInline init(_ queue: DispatchQueue?, isUsers: Bool) {
        self.isUsers = isUsers
        self.queue =
            queue ?? DispatchQueue(label: "FluxQueueDelivery", autoreleaseFrequency: .workItem, target: .global())
    }

    /// Adds a turn behind those that wait; returns true to settle.
    @usableFromInline func add(_ turn: any FluxTurn) -> Bool {
        line.withLock { line in
            line.waiting.append(turn)
            defer { if line.phase == .idle { line.phase = .due } }
            return line.phase == .idle
        }
    }

    @usableFromInline func settle() {
        let isDue = line.withLock { line in
            defer { if line.phase == .due { line.phase = .scheduled } }
            return line.phase == .due
        }
        if isDue { schedule() }
    }

    /// Waits for about two microseconds, as the drains of a store do with `fluxLinger()` of the core.
    ///
    /// In a burst, the next batch becomes larger this way, and threads that put elements meet the lock less often.
    @usableFromInline static func linger() { for _ in 0..<400 { _ = _Concurrency.Task.isCancelled } }

    private func schedule() { queue.async { self.run() } }

    /// Takes the waiting turns; gives the thread back after some rounds, and whenever a turn pauses.
    private func run() {
        var turns: ContiguousArray<any FluxTurn> = []
        for _ in 0..<16 {
            let isOver = line.withLock { line in
                swap(&turns, &line.waiting)
                if turns.isEmpty { line.phase = .idle }
                return turns.isEmpty
            }
            if isOver { return }
            var hasPaused = false
            for turn in turns where !turn.takeTurn() {
                _ = add(turn)
                hasPaused = true
            }
            turns.removeAll(keepingCapacity: turns.capacity <= 1 << 16)
            if hasPaused { break }
        }
        // Through the pool: otherwise the thread would continue with the same serial queue. A user's
        // queue need not wait for the pool.
        if isUsers { schedule() } else { DispatchQueue.global().async { self.schedule() } }
    }
}
