/// What may happen to a task from any thread at any moment: a pure state machine.
///
/// | input     | open                                        | closed                                  |
/// |-----------|---------------------------------------------|-----------------------------------------|
/// | `start`   | started                                     | refused                                 |
/// | `enter`   | one more dispatch is under way              | refused; so is one of another attempt   |
/// | `pass`    | the same, for what was kept                 | refused if it was cancelled             |
/// | `leave`   | one less is under way                       | the same; the last one settles it       |
/// | `retry`   | another attempt: earlier ones are refused   | refused                                 |
/// | `close`   | closed for good, with the way it ended      | refused                                 |
/// | `next`    | the next event of its life, or to wait      | and the end once it is settled          |
///
/// Between being closed and settled nothing enters any more, and what had entered is still dispatched: the outcome is known once
/// it is settled (C9).
nonisolated struct FluxTaskMachine {
    /// Where somebody who looks at the life is.
    struct Cursor {
        var isStarted = false
        /// How many actions and retries it has seen.
        var sent = 0
        var retries = 0
        var isOver = false
    }

    /// What an input may have set free, to be seen to outside the lock.
    struct Told {
        var isSettled = false
        var isSweepDue = false
        var runner: _Concurrency.Task<Void, Swift.Never>?
        var waiters: ContiguousArray<FluxLatch> = []
        var closures: ContiguousArray<Closure> = []
    }

    struct Closure {
        let body: @Sendable (FluxTask.Outcome) -> Void
    }

    /// What most tasks never need, made when somebody looks, waits or is to be told.
    private final class Watch {
        var waiters = FluxList<FluxLatch>()
        var lastID: UInt64 = 0
        /// Called once it is closed, and once it is settled.
        var cancellations: ContiguousArray<Closure> = []
        var endings: ContiguousArray<Closure> = []
        /// The latest retries, each with the number of actions that were sent before; and how many there were before these.
        var retries: ContiguousArray<(sent: Int, attempt: Int, error: any Error)> = []
        var forgotten = 0
        var number: UInt64 = 0
    }

    /// So many of the latest retries are kept for those who begin to look late.
    private static var keptRetries: Int { 64 }

    private(set) var isStarted = false
    private(set) var isSettled = false
    private(set) var attempt: Int32 = 1
    private var underWay: Int32 = 0
    private var sent = 0
    /// How it ended; nil while it is open.
    private(set) var end: FluxTask.Outcome?
    /// The Swift task that runs the conversion, to be cancelled with it.
    private var runner: _Concurrency.Task<Void, Swift.Never>?
    private var watch: Watch?

    private mutating func makeWatch() -> Watch {
        let known = watch ?? Watch()
        watch = known
        return known
    }

    // MARK: - The work

    mutating func start() -> Bool {
        if end != nil { return false }
        isStarted = true
        return true
    }

    mutating func enter(_ attempt: Int) -> Bool {
        if end != nil || self.attempt != attempt { return false }
        underWay += 1
        return true
    }

    /// What was kept goes on; nil: not at all, false: with nothing to leave, since it cannot be cancelled any more.
    mutating func pass() -> Bool? {
        if let end { return end.isCancelled ? nil : false }
        underWay += 1
        return true
    }

    mutating func leave(hasSent: Bool) {
        underWay -= 1
        if hasSent { sent += 1 }
    }

    mutating func retry(after attempt: Int, _ error: any Error) -> Bool {
        if end != nil { return false }
        self.attempt += 1
        let watch = makeWatch()
        if watch.retries.count == Self.keptRetries {
            watch.retries.removeFirst()
            watch.forgotten += 1
        }
        watch.retries.append((sent, attempt, error))
        // What was to be cancelled was of the attempt that failed.
        watch.cancellations = []
        return true
    }

    /// Closes it; with `entering`, a last dispatch is under way from here on.
    mutating func close(_ outcome: FluxTask.Outcome, of attempt: Int?, entering: Bool) -> Bool {
        if end != nil || attempt.map({ $0 != self.attempt }) == true { return false }
        end = outcome
        if entering { underWay += 1 }
        return true
    }

    /// Who is to be told after an input, outside the lock; nil: nobody.
    mutating func tell() -> Told? {
        if end == nil && watch == nil || isSettled { return nil }
        var told = Told()
        if end != nil && underWay == 0 { (isSettled, told.isSettled) = (true, true) }
        if end?.isCancelled == true || isSettled { swap(&told.runner, &runner) }
        guard let watch else { return told }
        told.waiters = watch.waiters.removeAll()
        if end?.isCancelled == true { swap(&told.closures, &watch.cancellations) }
        if told.isSettled {
            told.closures += watch.endings
            (watch.endings, watch.cancellations) = ([], [])
        }
        return told
    }

    // MARK: - Those who look

    /// Keeps the Swift task that runs the conversion; false: it is to be cancelled at once.
    mutating func run(by task: _Concurrency.Task<Void, Swift.Never>) -> Bool {
        if end == nil { runner = task }
        return end?.isCancelled != true
    }

    mutating func onCancel(_ body: @escaping @Sendable () -> Void) -> Bool {
        if end == nil { makeWatch().cancellations.append(Closure(body: { _ in body() })) }
        return end?.isCancelled ?? false
    }

    /// Keeps a closure for the end; returns the outcome if that is known, and keeps nothing.
    mutating func onEnd(_ body: @escaping @Sendable (FluxTask.Outcome) -> Void) -> FluxTask.Outcome? {
        if isSettled { return end }
        makeWatch().endings.append(Closure(body: body))
        return nil
    }

    /// Keeps a latch until something happens; returns what to withdraw it by.
    mutating func wait(_ latch: FluxLatch) -> UInt64 {
        let watch = makeWatch()
        watch.lastID += 1
        latch.enter()
        watch.waiters.insert(latch, id: watch.lastID)
        return watch.lastID
    }

    mutating func withdraw(_ id: UInt64) { watch?.waiters.remove(id: id) }

    /// The number of the work; 0 gets the one that is made.
    mutating func number(_ make: () -> UInt64) -> UInt64 {
        let watch = makeWatch()
        if watch.number == 0 { watch.number = make() }
        return watch.number
    }

    /// The next event after a cursor, which it moves on; nil: none yet, or none any more.
    func next(after cursor: inout Cursor) -> FluxTask.LifeEvent? {
        if cursor.isOver || !isStarted && !isSettled { return nil }
        if isStarted && !cursor.isStarted {
            cursor.isStarted = true
            return .started
        }
        let forgotten = watch?.forgotten ?? 0
        if cursor.retries < forgotten {
            (cursor.retries, cursor.sent) = (forgotten, max(cursor.sent, watch?.retries.first?.sent ?? 0))
        }
        let retry = watch?.retries.dropFirst(cursor.retries - forgotten).first
        if cursor.sent < retry?.sent ?? sent {
            cursor.sent += 1
            return .actionSent
        }
        if let retry {
            cursor.retries += 1
            return .retrying(attempt: retry.attempt, error: retry.error)
        }
        guard let end, isSettled else { return nil }
        cursor.isOver = true
        return .ended(end)
    }
}
