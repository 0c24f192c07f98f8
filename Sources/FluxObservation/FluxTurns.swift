import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// What takes its turn on a queue, to hand over what waits.
@usableFromInline
nonisolated protocol FluxTurn: AnyObject, Sendable {
    /// Hands over what waits; false: it paused, and wants another turn.
    func takeTurn() -> Bool
}

/// Who has a turn due on one queue: however many they are, they are one block on it.
///
/// | input    | idle        | due       | scheduled                                      |
/// |----------|-------------|-----------|------------------------------------------------|
/// | `add`    | due; settle | kept      | kept                                           |
/// | `settle` | nothing     | scheduled | nothing                                        |
/// | `run`    | -           | -         | all that wait, again and again; idle when none |
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
    ///   - queue: Where turns are taken; nil: on a serial queue of its own.
    ///   - isUsers: Whether that queue is the user's.
    @usableFromInline init(_ queue: DispatchQueue?, isUsers: Bool) {
        self.isUsers = isUsers
        self.queue =
            queue ?? DispatchQueue(label: "FluxQueueDelivery", autoreleaseFrequency: .workItem, target: .global())
    }

    /// Gives somebody a turn, behind those that wait for theirs; true: settle.
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

    /// Waits for about two microseconds, as the drains of a store do by `fluxLinger()` of the core.
    ///
    /// In a burst the next batch is the larger for it, and who puts meets the lock less often.
    @usableFromInline static func linger() { for _ in 0..<400 { _ = _Concurrency.Task.isCancelled } }

    private func schedule() { queue.async { self.run() } }

    /// Gives its thread back to others after some rounds, and whenever somebody pauses.
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
        // By way of the pool, for the thread would go on with its own serial queue; a queue of the user's need not wait for the pool.
        if isUsers { schedule() } else { DispatchQueue.global().async { self.schedule() } }
    }
}
