/// The state of a task, which any thread may change at any moment: a pure state machine.
///
/// | input     | open                                        | closed                                  |
/// |-----------|---------------------------------------------|-----------------------------------------|
/// | `start`   | started                                     | refused                                 |
/// | `enter`   | one more dispatch is under way              | refused; a kept one, only if cancelled  |
/// | `leave`   | one less is under way                       | the same; after the last, `onEnd` and then settled |
/// | `retry`   | another attempt: the conversion has ended   | refused                                 |
/// | `close`   | closed permanently, with its outcome        | refused                                 |
/// | `next`    | the next life event, or nil to wait         | the same, and the end once it is settled |
///
/// Between closed and settled, no dispatch of the conversion enters any more, and those that had entered still
/// complete. The outcome is known once the task is settled (C9).
nonisolated struct FluxTaskMachine {
    /// The closures and waiters that an input has set free, to be handled outside the lock.
    struct Told {
        let end: FluxTask.Outcome?
        var cancellations: ContiguousArray<Cancellation> = []
        var endings: ContiguousArray<Ending> = []
        var waiters: Waiters = [:]
    }

    /// The cancellation closures of a failed attempt and an error no longer kept, to be released outside the lock.
    typealias Dropped = (cancellations: ContiguousArray<Cancellation>, error: (any Swift.Error)?)

    struct Cancellation { let body: @Sendable () -> Void }

    /// The latches of those that wait; under true, those that wait for the end alone.
    ///
    /// An action does not visit the latter, however many there are.
    typealias Waiters = [Bool: [ObjectIdentifier: FluxLatch]]

    struct Ending { let body: @Sendable (FluxTask.Outcome) -> Void }

    private(set) var attempt = 1
    // In one word with the flag below: see FluxTask.
    private var underWay: Int32 = 0
    private(set) var isSettled = false
    /// The outcome; nil while the task is open.
    private(set) var end: FluxTask.Outcome?
    /// The number of life events so far: the start, each action, each retry and the end.
    private var happened = 0
    /// The latest retries, each with its position among the life events.
    private var retries: ContiguousArray<(position: Int, attempt: Int, error: any Swift.Error)> = []
    /// Closures to call once the task is cancelled; the `endings` are called just before it is settled.
    private var cancellations: ContiguousArray<Cancellation> = []
    private var endings: ContiguousArray<Ending> = []
    /// Waiters for the next life event, or for the end alone.
    var waiters: Waiters = [:]

    // MARK: - The work

    mutating func start() -> Bool {
        if end == nil && happened == 0 { happened = 1 }
        return end == nil
    }

    /// Begins a dispatch of the conversion, or one that was kept, which is refused only after a cancel.
    mutating func enter(isKept: Bool) -> Bool {
        if isKept ? end?.isCancelled == true : end != nil { return false }
        underWay += 1
        return true
    }

    mutating func leave(hasSent: Bool) {
        underWay -= 1
        if hasSent { happened += 1 }
    }

    /// Returns what is to be released; nil if there is to be no other attempt.
    mutating func retry(after error: any Swift.Error) -> Dropped? {
        if end != nil { return nil }
        // Until the event observers have been notified: the end is reported after that.
        underWay += 1
        // Keeps a limited number for iterators that begin late.
        let forgotten = retries.count == 64 ? retries.removeFirst().error : nil
        retries.append((happened, attempt, error))
        (happened, attempt) = (happened + 1, attempt + 1)
        return (Swift.exchange(&cancellations, with: []), forgotten)
    }

    /// Closes the task; an action that is sent with the end counts as a dispatch under way.
    mutating func close(_ outcome: FluxTask.Outcome, isSending: Bool = false) -> Bool {
        if end != nil { return false }
        // Work that has started is no longer dropped.
        end = outcome.isDropped && happened > 0 ? .cancelled : outcome
        if isSending { underWay += 1 }
        return true
    }

    /// Returns what to notify outside the lock after an input; nil if there is nothing.
    mutating func tell() -> Told? {
        if isSettled || end == nil && waiters[false]?.isEmpty != false { return nil }
        let isLast = end != nil && underWay == 0
        if isLast && endings.isEmpty { (isSettled, happened) = (true, happened + 1) }
        // The usual case: no waiters, and nothing to release.
        if waiters.isEmpty && cancellations.isEmpty && endings.isEmpty { return nil }
        var told = Told(end: end)
        if isLast || end?.isCancelled == true { swap(&told.cancellations, &cancellations) }
        if isLast && !isSettled {
            // Counted as a dispatch under way: once the outcome is known, the event's place in a waiting list is free.
            swap(&told.endings, &endings)
            underWay = 1
        } else {
            // Waiters for the end alone are not notified of anything else.
            told.waiters = isSettled ? waiters : waiters.filter { !$0.key }
            waiters = isSettled ? [:] : waiters.filter { $0.key }
        }
        return told
    }

    // MARK: - Waiting

    /// Keeps a closure for the cancellation; returns true if the caller must call it at once.
    mutating func onCancel(_ closure: Cancellation) -> Bool {
        if end == nil { cancellations.append(closure) }
        return end?.isCancelled ?? false
    }

    /// Keeps a closure for the end; if the outcome is known, returns it and keeps nothing.
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

    /// Returns the life event after those seen, and counts it as seen; nil if there is none yet.
    func next(after seen: inout Int) -> FluxTask.LifeEvent? {
        // If the oldest retries are no longer kept, an iterator past the start continues with the first that is.
        if seen > 0, retries.count < attempt - 1, let first = retries.first { seen = max(seen, first.position) }
        if seen == happened { return nil }
        defer { seen += 1 }
        if isSettled, let end, seen == happened - 1 { return .ended(end) }
        if let retry = retries.first(where: { $0.position == seen }) {
            return .retrying(attempt: retry.attempt, error: retry.error)
        }
        return seen == 0 ? .started : .actionSent
    }
}
