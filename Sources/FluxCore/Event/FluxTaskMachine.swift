/// The life of a task: the pure state machine behind ``FluxTask``.
///
/// | input       | open                                             | ended    |
/// |-------------|--------------------------------------------------|----------|
/// | `begin`     | keeps the work, to cancel it with                | refused  |
/// | `note`      | a retry, kept for those who look                 | ignored  |
/// | `close`     | ended; hands out whom to tell                    | nil      |
/// | `cancel`    | hands out the parts to cancel first              | nothing  |
/// | `partEnded` | counted; the outcome of the whole after the last | ignored  |
/// | `wait`      | kept                                             | false    |
/// | `next`      | the next event of the life, or to be told of it  | the same |
nonisolated struct FluxTaskMachine<Waiter> {
    /// Whom to tell of the end, outside the lock.
    struct Closing {
        let outcome: FluxTask.Outcome
        let work: _Concurrency.Task<Void, Never>?
        let waiters: ContiguousArray<Waiter>
    }

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

    /// What most tasks never need: made when somebody waits or looks, for the work of an asynchronous converter, and for
    /// events that were fired together.
    final class Details {
        var work: _Concurrency.Task<Void, Never>?
        var waiters: ContiguousArray<Waiter> = []
        var listeners: ContiguousArray<Waiter> = []
        /// Each with the number of actions dispatched before; the actions themselves are only counted.
        var retries: ContiguousArray<(sent: UInt64, event: FluxTask.LifeEvent)> = []
        /// The tasks of events that were fired together.
        var parts: ContiguousArray<FluxTask> = []
        /// How many of them have not ended, and what the whole comes to so far.
        var open = 0
        var worst: FluxTask.Outcome = .completed
    }

    private(set) var outcome: FluxTask.Outcome?
    private(set) var isCancelling = false
    private var sentInAll: UInt64 = 0
    private var made: Details?

    private var details: Details {
        mutating get {
            if let made { return made }
            let new = Details()
            made = new
            return new
        }
    }

    init(parts: Int = 0) {
        if parts > 0 { details.open = parts }
    }

    // MARK: - The work

    mutating func add(_ part: FluxTask) {
        if outcome == nil { details.parts.append(part) }
    }

    /// Keeps the Swift task that does the work; false: it has ended already, and the task is to be cancelled.
    mutating func begin(_ work: _Concurrency.Task<Void, Never>) -> Bool {
        if outcome == nil { details.work = work }
        return outcome == nil
    }

    mutating func note(attempt: Int, _ error: any Error, sent: UInt64) {
        if outcome == nil { details.retries.append((sent, .retrying(attempt: attempt, error: error))) }
    }

    /// Ends the work; nil if it had ended.
    mutating func close(_ outcome: FluxTask.Outcome, sent: UInt64) -> Closing? {
        if self.outcome != nil { return nil }
        self.outcome = outcome
        sentInAll = sent
        guard let made else { return Closing(outcome: outcome, work: nil, waiters: []) }
        defer { (made.work, made.waiters, made.listeners, made.parts) = (nil, [], [], []) }
        return Closing(outcome: outcome, work: made.work, waiters: made.waiters + made.listeners)
    }

    var openParts: ContiguousArray<FluxTask> { made?.parts ?? [] }

    /// Hands out the parts, which are to be cancelled before the whole.
    mutating func cancel() -> ContiguousArray<FluxTask> {
        isCancelling = outcome == nil
        return openParts
    }

    /// Counts the end of a part; returns the outcome of the whole after the last.
    mutating func partEnded(_ part: FluxTask, _ outcome: FluxTask.Outcome) -> FluxTask.Outcome? {
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
        return details.open == 0 && self.outcome == nil ? details.worst : nil
    }

    // MARK: - Those who look

    /// Keeps somebody until the end; false if it has ended.
    mutating func wait(_ waiter: Waiter) -> Bool {
        if outcome == nil { details.waiters.append(waiter) }
        return outcome == nil
    }

    mutating func listen(_ waiter: Waiter) {
        details.listeners.append(waiter)
    }

    mutating func takeListeners() -> ContiguousArray<Waiter> {
        guard let made else { return [] }
        defer { made.listeners = [] }
        return made.listeners
    }

    /// The next event after a cursor, which it moves on.
    ///
    /// - Parameters:
    ///   - cursor: Where the one who looks is.
    ///   - sent: The number of actions dispatched so far.
    ///   - isStarted: Whether the converter was called.
    /// - Returns: The event; or that there is none any more, or none yet.
    func next(after cursor: inout Cursor, sent: UInt64, isStarted: Bool) -> Look {
        if cursor.isOver { return .over }
        if isStarted && !cursor.isStarted {
            cursor.isStarted = true
            return .event(.started)
        }
        let retries = made?.retries ?? []
        let retry = cursor.retries < retries.count ? retries[cursor.retries] : nil
        if cursor.sent < retry?.sent ?? (outcome == nil ? sent : sentInAll) {
            cursor.sent += 1
            return .event(.actionSent)
        }
        if let retry {
            cursor.retries += 1
            return .event(retry.event)
        }
        guard let outcome else { return .wait }
        cursor.isOver = true
        return .event(.ended(outcome))
    }
}
