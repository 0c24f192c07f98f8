import FluxCore
import FluxEffects
import Synchronization

/// Events with every rule, some of them cancelled; and creators that are released while events are in flight.
struct EventsActivity: Activity {
    private static let jobs = 40

    private let limit = FluxLimit(3)

    func round() async throws {
        let key: FluxRule<Job>.Key = { $0.key }
        let all: [(name: String, rules: [FluxRule<Job>])] = [
            ("no rule", []),
            ("unique, earlier", [.unique(cancelling: .earlier, for: key)]),
            ("unique, later", [.unique(cancelling: .later, for: key)]),
            ("sequence", [.sequence(for: key)]),
            ("debounce", [.debounce(for: key, .milliseconds(1))]),
            ("throttle", [.throttle(for: key, .milliseconds(1), latest: true)]),
            ("concurrency", [.concurrency(2)]),
            ("a shared limit", [.concurrency(limit)]),
            ("retry", [.retry(limit: 2)]),
            ("sequence, retry", [.sequence(for: key), .retry(limit: 2)]),
        ]
        for (name, rules) in all { try await fire(name, rules) }
        try await limit("sequence", atMost: 1, [.sequence()])
        try await limit("concurrency", atMost: 2, [.concurrency(2)])
        try await limit("a shared limit", atMost: 3, [.concurrency(FluxLimit(3))])
        try await letGo()
    }

    private func fire(_ name: String, _ rules: [FluxRule<Job>]) async throws {
        let store = FluxStore(initialState: Ledger(), dispatcher: nil)
        let site = Site()
        let failures = Sums(Self.jobs)
        let creator = FluxActionCreator<JobConverter>(dependency: site, store: store, rules: rules) { _, job in
            failures.add(1, to: job.number)
        }
        let jobs = (0..<Self.jobs).map { Job(number: $0, key: $0 % 4, failures: $0.isMultiple(of: 8) ? 2 : 0) }
        let tasks = jobs.map { creator.fire($0) }
        let cancelled = Set((0..<8).map { _ in Int.random(in: 0..<Self.jobs) })
        for number in cancelled {
            tasks[number].cancel()
            if Bool.random() { await Task.yield() }
        }
        var known: [Int] = []
        for (job, task) in zip(jobs, tasks) {
            let outcome = await task.outcome
            let applied = store.state.applied[job.number, default: 0]
            known.append(applied)
            try promise("C9", "\(name), failures reported", failures[job.number], is: outcome.error == nil ? 0 : 1)
            try check(outcome, of: job, applied: applied, attempts: site.attempts(of: job.number), name)
        }
        await creator.flush()
        try promise("C9", "\(name), events in flight", creator.inFlight, is: 0)
        // A cancelled conversion may still be running, and send.
        try await promise("C9", "\(name), conversions end") { site.running == 0 }
        for job in jobs {
            let applied = store.state.applied[job.number, default: 0]
            try promise("C9", "\(name), actions after the outcome is known", applied, is: known[job.number])
        }
    }

    /// Checks that no more events run at once than the rule allows.
    ///
    /// It cancels none, because a cancelled event may still be running.
    private func limit(_ name: String, atMost most: Int, _ rules: [FluxRule<Job>]) async throws {
        let (store, site) = (FluxStore(initialState: Ledger(), dispatcher: nil), Site())
        let creator = FluxActionCreator<JobConverter>(dependency: site, store: store, rules: rules)
        for number in 0..<Self.jobs { creator.fire(Job(number: number, key: 0, failures: 0)) }
        await creator.flush()
        if site.most > most { throw BrokenPromise("C9", "\(name), \(site.most) run at once instead of \(most)") }
        try promise("C9", "\(name), events that were run", store.state.applied.count, is: Self.jobs)
    }

    private func check(_ outcome: FluxTask.Outcome, of job: Job, applied: Int, attempts: Int, _ name: String) throws {
        switch outcome {
        case .completed: try promise("C9", "\(name), actions of an event", applied, is: job.failures + 2)
        case .failed: try promise("C9", "\(name), actions of one that failed", applied, is: attempts)
        case .dropped: try promise("C9", "\(name), actions of one that was dropped", applied, is: 0)
        case .cancelled:
            if applied > job.failures + 2 { throw BrokenPromise("C9", "\(name), \(applied) actions of one event") }
        }
    }

    /// Checks C3 and C10: even after the creator is released, all events arrive, in the order in which they were fired.
    private func letGo() async throws {
        let store = FluxStore(initialState: Board(), dispatcher: nil)
        var creator: FluxActionCreator<MarkConverter>? = FluxActionCreator(dependency: Canary(), store: store)
        var tasks = (1...50).compactMap { creator?.fire(Mark(number: $0)) }
        if let task = creator?.fire((51...100).map { Mark(number: $0) }) { tasks.append(task) }
        creator = nil
        for task in tasks {
            let outcome = await task.outcome
            if !outcome.isCompleted { throw BrokenPromise("C10", "an event whose creator is gone: \(outcome)") }
        }
        try promise("C10", "events of a creator that is gone", store.state.count, is: 100)
        try promise("C3", "events out of order", store.state.disorder, is: 0)
    }
}

/// How many actions each event led to.
private struct Ledger: FluxState {
    struct Action: FluxAction { let number: Int }

    private(set) var applied: [Int: Int] = [:]

    mutating func handle(action: Action) -> Ledger? {
        applied[action.number, default: 0] += 1
        return self
    }
}

private struct Job: FluxEvent {
    let number: Int
    let key: Int
    /// How many attempts fail, each after the first of two actions.
    let failures: Int
}

/// The dependency of the conversions; it counts the attempts of each event.
private final class Site: Sendable {
    private let canary = Canary()
    private let state = Mutex((attempts: [Int: Int](), running: 0, most: 0))

    var running: Int { state.withLock { $0.running } }
    /// The most that have run at once.
    var most: Int { state.withLock { $0.most } }

    func attempts(of number: Int) -> Int { state.withLock { $0.attempts[number, default: 0] } }

    func begin(_ number: Int) -> Int {
        state.withLock { state in
            state.running += 1
            state.most = max(state.most, state.running)
            state.attempts[number, default: 0] += 1
            return state.attempts[number, default: 0]
        }
    }

    func end() { state.withLock { $0.running -= 1 } }
}

private enum JobConverter: FluxAsyncActionConverter {
    struct Failure: Error {}

    static func convert(
        event: Job, dependency site: Site, send: @escaping @Sendable (Ledger.Action) -> Void
    ) async throws {
        let attempt = site.begin(event.number)
        defer { site.end() }
        send(Ledger.Action(number: event.number))
        await Task.yield()
        if attempt <= event.failures { throw Failure() }
        if event.number.isMultiple(of: 5) { try? await Task.sleep(for: .microseconds(200)) }
        send(Ledger.Action(number: event.number))
    }
}

private struct Mark: FluxEvent { let number: Int }

private enum MarkConverter: FluxActionConverter {
    static func convert(
        event: Mark, dependency: Canary, actionHandler: @escaping @Sendable (Board.Action) -> Void
    ) {
        actionHandler(.mark(producer: 0, number: event.number))
    }
}
