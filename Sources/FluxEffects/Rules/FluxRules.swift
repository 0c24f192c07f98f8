#if canImport(FluxCore)
    import FluxCore
#endif

/// Has the events of one creator, or of several, run by rules: the scheduler that those apply.
///
/// Creators given `rules:` make one of their own. One that several creators share lets rules reach over types of event:
///
/// ```swift
/// let orderly = FluxRules<any FluxEvent>([.sequence()])
/// let searching = FluxActionCreator<SearchConverter>(dependency: index, schedulers: [orderly])
/// let saving = FluxActionCreator<SaveConverter>(dependency: disk, schedulers: [orderly])
/// store.run(Load(page: 1), dependency: client, rules: orderly)
/// ```
///
/// Events that are of another type than its rules, as a cast by `as?` has it, go on at once.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxRules<Event: Sendable>: FluxScheduler {
    private let runner: FluxRuleRunner

    /// Makes the scheduler of some rules.
    ///
    /// - Parameters:
    ///   - rules: What applies to the events, in this order.
    ///   - clock: What durations of the rules are measured with; its `now` is read under a lock, and uses no store.
    public init(
        _ rules: [FluxRule<Event>], clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock()
    ) {
        runner = FluxRuleRunner(rules.map(\.form), FluxRuleClock(clock))
    }

    /// Takes an event through the rules.
    ///
    /// - Parameter ticket: The event.
    /// - Complexity: O(log *n*) for *n* events in flight; O(*k*) where a condition has to look at the *k* of one key.
    public func fired(_ ticket: FluxTicket) { ticket.event is Event ? runner.fired(ticket) : ticket.start() }

    /// Has an event tried again, if a rule says so.
    ///
    /// - Parameters:
    ///   - ticket: The event.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: What it failed with.
    /// - Returns: Whether it is tried again.
    public func retries(_ ticket: FluxTicket, attempt: Int, _ error: any Swift.Error) -> Bool {
        runner.retries(ticket, after: attempt)
    }

    /// Lets those go on that an event has kept waiting.
    ///
    /// - Parameters:
    ///   - ticket: The event.
    ///   - outcome: How it ended.
    public func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) { runner.ended(ticket) }
}

/// Where events come under rules, whatever their type.
nonisolated final class FluxRuleRunner: Sendable {
    private typealias Machine = FluxRuleMachine

    /// What somebody sleeps for.
    private enum Alarm: Hashable {
        case rule(Machine.Timer)
        /// The next attempt of an event.
        case attempt(UInt64)

        var key: AnyHashable? { if case .rule(let timer) = self { timer.key } else { nil } }
    }

    /// In place of a key that does not equal itself, and so would not be found again.
    private struct Alone: Hashable { let id: UInt64 }

    /// An event, and the limits in which it needs a place once the rules let it start.
    private struct Entry {
        let ticket: FluxTicket
        let limits: ArraySlice<FluxLimit>

        /// Under the lock of the limit before: that is why they are in one order everywhere.
        func goOn() {
            if let limit = limits.first { limit.places.take(ticket, limits.dropFirst()) } else { ticket.start() }
        }
    }

    /// The machine, what its ids stand for, and those who sleep for it.
    private struct Table {
        var machine: Machine
        let clock: FluxRuleClock
        /// By the ids of their tasks, which the machine knows them by.
        var entries: [UInt64: Entry] = [:]
        /// Those who sleep, by a number each, with their tasks once these are known, and until when they are to sleep on.
        ///
        /// One who is wanted later sleeps on rather than be cancelled, for many a clock keeps a sleep that was cancelled until its time.
        var sleeps: [UInt64: (alarm: Alarm, later: Swift.Duration?, task: _Concurrency.Task<Void, Never>?)] = [:]
        var alarms: [Alarm: UInt64] = [:]
        var lastNumber: UInt64 = 0
        /// What is to be done without the lock.
        var started: [(number: UInt64, deadline: Swift.Duration)] = []
        var woken: [_Concurrency.Task<Void, Never>?] = []
        var gone: [AnyHashable] = []

        /// The moment, where a rule minds it.
        private var now: Swift.Duration { machine.isTimed ? clock.now() : .zero }

        // MARK: - Inputs

        mutating func fired(_ entry: Entry) {
            let (id, event) = (entry.ticket.task.id, entry.ticket.event)
            // It was here already, by way of another scheduler, and has its place.
            if entries.updateValue(entry, forKey: id) != nil { return entry.goOn() }
            let found = machine.rules.map { $0.key(event).map { AnyHashable($0) } }
            for case let key? in found where key != key { gone.append(key) }
            let keys = found.map { $0.map { $0 == $0 ? $0 : AnyHashable(Alone(id: id)) } }
            perform(machine.fire(id, event, keys: keys, at: now))
        }

        /// Of several rules that cover an event the first applies.
        mutating func retries(_ ticket: FluxTicket, after attempt: Int) -> Bool {
            let id = ticket.task.id
            for (rule, key) in zip(machine.rules, machine.entries[id]?.keys ?? []) where key != nil {
                guard case .retry(let limit, let backoff) = rule.kind else { continue }
                if attempt > limit { return false }
                let delay = Swift.min(backoff.delay(after: attempt), Machine.longest)
                if delay == .zero { ticket.start() } else { sleep(.attempt(id), until: clock.now() + delay) }
                return true
            }
            return false
        }

        mutating func ended(_ ticket: FluxTicket) {
            let id = ticket.task.id
            entries[id] = nil
            wake(.attempt(id))
            perform(machine.ended(id, at: now))
        }

        /// Somebody has woken up, whom nobody may wait for any longer.
        mutating func elapsed(_ number: UInt64) {
            guard let (alarm, later, _) = sleeps[number] else { return }
            sleeps[number]?.later = nil
            if let later { return started.append((number, later)) }
            remove(alarm, number)
            switch alarm {
            case .rule(let timer): perform(machine.elapsed(timer, at: now))
            case .attempt(let id): entries[id]?.ticket.start()
            }
        }

        // MARK: - Results

        private mutating func perform(_ effects: [Machine.Effect]) {
            var wakes: [Machine.Timer] = []
            for effect in effects {
                switch effect {
                case .start(let id): entries[id]?.goOn()
                case .end(let id, .dropped): entries[id]?.ticket.drop()
                case .end(let id, _): entries[id]?.ticket.cancel()
                case .sleep(let timer, let deadline): sleep(.rule(timer), until: deadline)
                case .wake(let timer):
                    if let number = alarms[.rule(timer)] { sleeps[number]?.later = nil }
                    wakes.append(timer)
                }
            }
            for timer in wakes { wake(.rule(timer)) }
            gone += machine.takeGone()
        }

        private mutating func sleep(_ alarm: Alarm, until deadline: Swift.Duration) {
            if let number = alarms[alarm] {
                sleeps[number]?.later = deadline
                return
            }
            lastNumber += 1
            (sleeps[lastNumber], alarms[alarm]) = ((alarm, nil, nil), lastNumber)
            started.append((lastNumber, deadline))
        }

        private mutating func wake(_ alarm: Alarm) {
            guard let number = alarms[alarm], sleeps[number]?.later == nil else { return }
            woken.append(sleeps[number]?.task)
            remove(alarm, number)
        }

        private mutating func remove(_ alarm: Alarm, _ number: UInt64) {
            let (sleep, index) = (sleeps.removeValue(forKey: number), alarms.index(forKey: alarm))
            gone += [sleep?.alarm, index.map { alarms.remove(at: $0).key }].compactMap { $0?.key }
        }
    }

    /// Each once, in an order that is the same everywhere.
    private let limits: [FluxLimit]
    private let table: FluxLock<Table>

    init(_ rules: [FluxRuleForm], _ clock: FluxRuleClock) {
        let limits = rules.compactMap(\.limit).map { (ObjectIdentifier($0), $0) }
        self.limits = Dictionary(limits) { limit, _ in limit }.sorted { $0.key < $1.key }.map(\.value)
        table = FluxLock(Table(machine: Machine(rules: rules.filter { $0.limit == nil }), clock: clock))
    }

    deinit {
        cancel(table.withLock { $0.sleeps.values.map(\.task) })
    }

    // MARK: - Scheduling

    func fired(_ ticket: FluxTicket) { take(ticket, limits[...]) }

    func retries(_ ticket: FluxTicket, after attempt: Int) -> Bool { decide { $0.retries(ticket, after: attempt) } }

    func ended(_ ticket: FluxTicket) { end(ticket, limits[...]) }

    /// Takes an event through the rules, and then through limits.
    private func take(_ ticket: FluxTicket, _ limits: ArraySlice<FluxLimit>) {
        decide { $0.fired(Entry(ticket: ticket, limits: limits)) }
    }

    private func end(_ ticket: FluxTicket, _ limits: ArraySlice<FluxLimit>) {
        decide { table in
            // Those behind first: what goes on then finds its place there. And under this lock: nothing gets there meanwhile.
            if let limit = limits.first { limit.places.end(ticket, limits.dropFirst()) }
            table.ended(ticket)
        }
    }

    /// Decides under the lock, and does outside it what is no matter of tickets.
    @discardableResult private func decide<Result>(_ body: (inout Table) -> Result) -> Result {
        let (result, woken, gone) = table.withLock { table in
            let result = FluxPureCode.run("a key, condition or FluxRuling of a FluxRule, or the now of its clock") {
                body(&table)
            }
            // With the lock held: whoever wakes up has been noted, and nobody is noted in the place of a later one.
            for (number, deadline) in table.started where table.sleeps[number] != nil {
                table.sleeps[number]?.task = _Concurrency.Task.detached { [weak self, clock = table.clock] in
                    await clock.sleep(deadline)
                    if !_Concurrency.Task.isCancelled { self?.decide { $0.elapsed(number) } }
                }
            }
            defer { (table.started, table.woken, table.gone) = ([], [], []) }
            return (result, table.woken, table.gone)
        }
        fluxLetGo(of: gone)
        cancel(woken)
        return result
    }

    /// Once no lock is held: a clock of the user's is told of it.
    private func cancel(_ sleeps: [_Concurrency.Task<Void, Never>?]) {
        if sleeps.isEmpty { return }
        FluxPureCode.after { for task in sleeps { task?.cancel() } }
    }
}

/// A clock of any type, with moments that can be compared: how long it has run since the rules were made.
nonisolated struct FluxRuleClock: Sendable {
    let now: @Sendable () -> Swift.Duration
    /// Returns at a moment, or when the task is cancelled.
    let sleep: @Sendable (_ deadline: Swift.Duration) async -> Void

    init(_ clock: some _Concurrency.Clock<Swift.Duration>) {
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleep = { try? await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
    }
}
