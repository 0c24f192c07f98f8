/// What is kept of a task for those who look at it: the pure state machine behind ``FluxTask``, beside its gate.
///
/// | input       | result                                                          |
/// |-------------|-----------------------------------------------------------------|
/// | `note`      | a retry is kept for those who look                              |
/// | `wait`      | kept until the end                                              |
/// | `listen`    | kept until something happens                                    |
/// | `close`     | hands out all who wait and listen                               |
/// | `partEnded` | counted; what the whole comes to after the last                 |
/// | `next`      | the next event of the life, or that there is none (any more)    |
nonisolated struct FluxTaskMachine<Waiter> {
    /// Where somebody who looks at the life is.
    struct Cursor {
        var isStarted = false
        var retries = 0
        var sent: UInt64 = 0
        var isOver = false
    }

    /// What somebody who looks gets.
    enum Look {
        case event(FluxTask.LifeEvent)
        case over
        case wait
    }

    /// What most tasks never need: made when somebody waits or looks, for an error, and for
    /// events that were fired together.
    private final class Details {
        var waiters: ContiguousArray<Waiter> = []
        var listeners: ContiguousArray<Waiter> = []
        var error: (any Error)?
        /// Each with the number of actions sent before; the actions themselves are only counted.
        var retries: ContiguousArray<(sent: UInt64, event: FluxTask.LifeEvent)> = []
        /// The tasks of events that were fired together.
        var parts: ContiguousArray<FluxTask> = []
        /// How many of them have not ended, and what the whole comes to so far.
        var open = 0
        var worst: FluxTask.Outcome = .completed
        var origin: UInt64 = 0
        /// The tasks that the conversion awaits at the moment.
        var awaited: ContiguousArray<FluxTask> = []
    }

    private var made: Details?

    private var details: Details {
        mutating get {
            if let made { return made }
            let new = Details()
            made = new
            return new
        }
    }

    init(parts: Int = 0, origin: UInt64 = 0) {
        if parts > 0 { details.open = parts }
        if origin > 0 { details.origin = origin }
    }

    var origin: UInt64 { made?.origin ?? 0 }

    // MARK: - The work

    mutating func note(attempt: Int, _ error: any Error, sent: UInt64) {
        details.retries.append((sent, .retrying(attempt: attempt, error: error)))
    }

    mutating func fail(_ error: any Error) {
        details.error = error
    }

    var error: (any Error)? { made?.error }

    /// How the work ended, by the word of its gate; nil while it goes on.
    func outcome(_ word: FluxGate.Word) -> FluxTask.Outcome? {
        switch word.end {
        case nil: nil
        case .completed: .completed
        case .failed: made?.error.map { .failed($0) } ?? .completed
        case .cancelled: .cancelled
        case .dropped: .dropped
        }
    }

    /// Hands out those who have to be told of the end, outside the lock.
    func close() -> ContiguousArray<Waiter> {
        guard let made else { return [] }
        defer { (made.waiters, made.listeners) = ([], []) }
        return made.waiters + made.listeners
    }

    // MARK: - Parts

    mutating func add(_ part: FluxTask) {
        // Parts keep the whole, so the whole keeps them no longer than until the last has ended.
        if details.open > 0 { details.parts.append(part) }
    }

    var parts: ContiguousArray<FluxTask> { made?.parts ?? [] }

    /// Counts the end of a part; after the last, returns the outcome of the whole, and the parts to be let go.
    mutating func partEnded(
        _ outcome: FluxTask.Outcome
    ) -> (outcome: FluxTask.Outcome, parts: ContiguousArray<FluxTask>)? {
        let details = details
        switch (details.worst, outcome) {
        case (.failed, _): break
        case (_, .failed): details.worst = outcome
        case (.cancelled, _): break
        case (_, .cancelled): details.worst = outcome
        case (.dropped, _): break
        case (_, .dropped): details.worst = outcome
        case (.completed, .completed): break
        }
        details.open -= 1
        if details.open > 0 { return nil }
        defer { details.parts = [] }
        return (details.worst, details.parts)
    }

    // MARK: - Those who wait

    mutating func wait(_ waiter: Waiter) {
        details.waiters.append(waiter)
    }

    mutating func listen(_ waiter: Waiter) {
        details.listeners.append(waiter)
    }

    func takeListeners() -> ContiguousArray<Waiter> {
        guard let made else { return [] }
        defer { made.listeners = [] }
        return made.listeners
    }

    // MARK: - What it waits for

    mutating func await(_ task: FluxTask) {
        details.awaited.append(task)
    }

    func stopAwaiting(_ task: FluxTask) {
        guard let made, let index = made.awaited.firstIndex(where: { $0 === task }) else { return }
        made.awaited.remove(at: index)
    }

    var awaited: ContiguousArray<FluxTask> { made?.awaited ?? [] }

    // MARK: - Its life

    /// The next event after a cursor, which it moves on.
    ///
    /// - Parameters:
    ///   - cursor: Where the one who looks is.
    ///   - word: What the gate says.
    /// - Returns: The event; or that there is none any more, or none yet.
    func next(after cursor: inout Cursor, _ word: FluxGate.Word) -> Look {
        if cursor.isOver { return .over }
        if word.isStarted && !cursor.isStarted {
            cursor.isStarted = true
            return .event(.started)
        }
        let retries = made?.retries ?? []
        let retry = cursor.retries < retries.count ? retries[cursor.retries] : nil
        if cursor.sent < retry?.sent ?? word.sent {
            cursor.sent += 1
            return .event(.actionSent)
        }
        if let retry {
            cursor.retries += 1
            return .event(retry.event)
        }
        guard let outcome = outcome(word) else { return .wait }
        cursor.isOver = true
        return .event(.ended(outcome))
    }
}
