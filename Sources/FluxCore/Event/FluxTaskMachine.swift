/// What may happen to a task from any thread at any moment: a pure state machine.
///
/// | input     | open                                        | closed                                  |
/// |-----------|---------------------------------------------|-----------------------------------------|
/// | `start`   | started                                     | refused                                 |
/// | `enter`   | one more dispatch is under way              | refused; what was kept, if cancelled    |
/// | `leave`   | one less is under way                       | the same; after the last those are told who come first, and then it is settled |
/// | `retry`   | another attempt: the conversion has ended   | refused                                 |
/// | `close`   | closed for good, with the way it ended      | refused                                 |
/// | `next`    | the next event of its life, or to wait      | and the end once it is settled          |
///
/// Between being closed and settled nothing of the conversion enters any more, and what had entered is still dispatched: the
/// outcome is known once it is settled (C9).
nonisolated struct FluxTaskMachine {
    /// What an input has set free, to be seen to outside the lock.
    struct Told {
        let end: FluxTask.Outcome?
        var cancellations: ContiguousArray<Cancellation> = []
        var endings: ContiguousArray<Ending> = []
        var waiters: Waiters = [:]
    }

    /// What was to be cancelled of an attempt that failed, and the error that is no longer kept, to be let go of outside the lock.
    typealias Dropped = (cancellations: ContiguousArray<Cancellation>, error: (any Swift.Error)?)

    struct Cancellation { let body: @Sendable () -> Void }

    /// By whether they wait for the end alone: an action costs nothing for these, however many.
    typealias Waiters = [Bool: [ObjectIdentifier: FluxLatch]]

    struct Ending { let body: @Sendable (FluxTask.Outcome) -> Void }

    private(set) var attempt = 1
    // With the flag beside it in one word: see FluxTask.
    private var underWay: Int32 = 0
    private(set) var isSettled = false
    /// How it ended; nil while it is open.
    private(set) var end: FluxTask.Outcome?
    /// How many events its life has had: the start, each action, each retry and the end.
    private var happened = 0
    /// The latest retries, each with its place among those events.
    private var retries: ContiguousArray<(place: Int, attempt: Int, error: any Swift.Error)> = []
    /// Called once it is cancelled, and once it is settled.
    private var cancellations: ContiguousArray<Cancellation> = []
    private var endings: ContiguousArray<Ending> = []
    /// Those who wait for the next event, or for the end alone.
    var waiters: Waiters = [:]

    // MARK: - The work

    mutating func start() -> Bool {
        if end == nil && happened == 0 { happened = 1 }
        return end == nil
    }

    /// A dispatch begins: of the conversion, or of what something has kept, which only a cancel refuses.
    mutating func enter(isKept: Bool) -> Bool {
        if isKept ? end?.isCancelled == true : end != nil { return false }
        underWay += 1
        return true
    }

    mutating func leave(hasSent: Bool) {
        underWay -= 1
        if hasSent { happened += 1 }
    }

    /// Returns what is to be let go of; nil: there is to be no other attempt.
    mutating func retry(after error: any Swift.Error) -> Dropped? {
        if end != nil { return nil }
        // Until those are told who look at events: the end is told after that.
        underWay += 1
        // So many are kept for those who begin to look late.
        let forgotten = retries.count == 64 ? retries.removeFirst().error : nil
        retries.append((happened, attempt, error))
        (happened, attempt) = (happened + 1, attempt + 1)
        return (Swift.exchange(&cancellations, with: []), forgotten)
    }

    /// Closes it; what is sent with the end is a dispatch under way.
    mutating func close(_ outcome: FluxTask.Outcome, isSending: Bool = false) -> Bool {
        if end != nil { return false }
        // What has started is not refused any more.
        end = outcome.isDropped && happened > 0 ? .cancelled : outcome
        if isSending { underWay += 1 }
        return true
    }

    /// Who is to be told after an input, outside the lock; nil: nobody.
    mutating func tell() -> Told? {
        if isSettled || end == nil && waiters[false]?.isEmpty != false { return nil }
        let isLast = end != nil && underWay == 0
        if isLast && endings.isEmpty { (isSettled, happened) = (true, happened + 1) }
        // Most end so: nobody looks, and nothing is to be let go of.
        if waiters.isEmpty && cancellations.isEmpty && endings.isEmpty { return nil }
        var told = Told(end: end)
        if isLast || end?.isCancelled == true { swap(&told.cancellations, &cancellations) }
        if isLast && !isSettled {
            // Under way as a dispatch is: who knows of the end finds the place free that it had in a row.
            swap(&told.endings, &endings)
            underWay = 1
        } else {
            // Who waits for the end alone is told of nothing else.
            told.waiters = isSettled ? waiters : waiters.filter { !$0.key }
            waiters = isSettled ? [:] : waiters.filter { $0.key }
        }
        return told
    }

    // MARK: - Those who look

    /// Keeps a closure for the cancellation; true: it is to be called at once.
    mutating func onCancel(_ closure: Cancellation) -> Bool {
        if end == nil { cancellations.append(closure) }
        return end?.isCancelled ?? false
    }

    /// Keeps a closure for the end; returns the outcome if that is known, and keeps nothing.
    mutating func onEnd(_ closure: Ending) -> FluxTask.Outcome? {
        if isSettled { return end }
        endings.append(closure)
        return nil
    }

    /// Keeps a latch until something happens.
    mutating func wait(_ latch: FluxLatch, isForEnd: Bool) -> FluxLatch {
        waiters[isForEnd, default: [:]][ObjectIdentifier(latch)] = latch
        return latch
    }

    /// The event after so many that were seen, which it counts on; nil: none yet.
    func next(after seen: inout Int) -> FluxTask.LifeEvent? {
        // Of more retries than are kept, who has seen the start goes on with the first that is.
        if seen > 0, retries.count < attempt - 1, let first = retries.first { seen = max(seen, first.place) }
        if seen == happened { return nil }
        defer { seen += 1 }
        if isSettled, let end, seen == happened - 1 { return .ended(end) }
        if let retry = retries.first(where: { $0.place == seen }) {
            return .retrying(attempt: retry.attempt, error: retry.error)
        }
        return seen == 0 ? .started : .actionSent
    }
}
