#if canImport(FluxCore)
    import FluxCore
#endif

/// The scheduler that applies rules to the events of one creator, or of several.
///
/// A creator that is given `rules:` creates its own. One that several creators share applies rules across event types:
///
/// ```swift
/// let orderly = FluxRules<any FluxEvent>([.sequence()])
/// let searching = FluxActionCreator<SearchConverter>(dependency: index, schedulers: [orderly])
/// let saving = FluxActionCreator<SaveConverter>(dependency: disk, schedulers: [orderly])
/// store.run(Load(page: 1), dependency: client, rules: orderly)
/// ```
///
/// An event that `as?` cannot cast to the event type of the rules proceeds at once.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxRules<Event: Sendable>: FluxScheduler {
    private let runner: FluxRuleRunner

    /// Creates a scheduler that applies rules.
    ///
    /// - Parameters:
    ///   - rules: The rules, in the order in which they apply.
    ///   - clock: The clock that measures the durations of the rules. Its `now` is read while a lock is held and must
    ///     not use a store.
    public init(
        _ rules: [FluxRule<Event>], clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock()
    ) {
        runner = FluxRuleRunner(rules.map(\.form), FluxRuleClock(clock))
    }

    /// Takes an event through the rules.
    ///
    /// - Parameter ticket: The ticket of the event.
    /// - Complexity: O(log *n*) for *n* events in flight; O(*k*) if a condition has to check the *k* events of one key.
    public func fired(_ ticket: FluxTicket) { ticket.event is Event ? runner.fired(ticket) : ticket.start() }

    /// Retries an event if a rule says so.
    ///
    /// - Parameters:
    ///   - ticket: The ticket of the event.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: The error that it failed with.
    /// - Returns: Whether the event is retried.
    public func retries(_ ticket: FluxTicket, attempt: Int, _ error: any Swift.Error) -> Bool {
        runner.retries(ticket, after: attempt)
    }

    /// Lets events proceed that have waited for an event that has now ended.
    ///
    /// - Parameters:
    ///   - ticket: The ticket of the event that has ended.
    ///   - outcome: How it ended.
    public func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) { runner.ended(ticket) }
}

/// Applies rules to events of any type.
nonisolated final class FluxRuleRunner: Sendable {
    private typealias Machine = FluxRuleMachine

    /// What a sleep is for.
    private enum Alarm: Hashable {
        case rule(Machine.Timer)
        /// The next attempt of an event.
        case attempt(UInt64)

        var key: AnyHashable? { if case .rule(let timer) = self { timer.key } else { nil } }
    }

    /// Replaces a key that does not equal itself, and so would not be found again.
    private struct Alone: Hashable { let id: UInt64 }

    /// An event, and the limits in which it needs a place once the rules let it start.
    private struct Entry {
        let ticket: FluxTicket
        let limits: ArraySlice<FluxLimit>

        /// Takes a place in the next limit or, after the last one, starts the event.
        ///
        /// Called while the lock of the previous limit is held. That is why limits have the same order everywhere.
        func goOn() {
            if let limit = limits.first { limit.places.take(ticket, limits.dropFirst()) } else { ticket.start() }
        }
    }

    /// The machine, the events behind its ids, and the sleeps for its timers.
    private struct Table {
        var machine: Machine
        let clock: FluxRuleClock
        /// The events, by the ids of their tasks; the machine uses the same ids.
        var entries: [UInt64: Entry] = [:]
        /// The sleeps by number, each with its task once that is known, and the later deadline to sleep on to.
        ///
        /// A sleep that is needed later sleeps on and is not cancelled, because many clocks keep a cancelled sleep
        /// until its time.
        var sleeps: [UInt64: (alarm: Alarm, later: Swift.Duration?, task: _Concurrency.Task<Void, Never>?)] = [:]
        var alarms: [Alarm: UInt64] = [:]
        var lastNumber: UInt64 = 0
        /// The results of the current input: sleeps to start, and what to cancel and release once the lock is free.
        var started: [(number: UInt64, deadline: Swift.Duration)] = []
        var woken: [_Concurrency.Task<Void, Never>?] = []
        var gone: [AnyHashable] = []

        /// The current moment; zero if no rule needs it.
        private var now: Swift.Duration { machine.isTimed ? clock.now() : .zero }

        // MARK: - Inputs

        mutating func fired(_ entry: Entry) {
            let (id, event) = (entry.ticket.task.id, entry.ticket.event)
            // The event was here already, by way of another scheduler, and has its place.
            if entries.updateValue(entry, forKey: id) != nil { return entry.goOn() }
            let found = machine.rules.map { $0.key(event).map { AnyHashable($0) } }
            for case let key? in found where key != key { gone.append(key) }
            let keys = found.map { $0.map { $0 == $0 ? $0 : AnyHashable(Alone(id: id)) } }
            perform(machine.fire(id, event, keys: keys, at: now))
        }

        /// Retries an event if the first retry rule that covers it says so.
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

        /// Handles the end of a sleep, which may no longer be needed.
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
            for effect in effects {
                switch effect {
                case .start(let id): entries[id]?.goOn()
                case .end(let id, .dropped): entries[id]?.ticket.drop()
                case .end(let id, _): entries[id]?.ticket.cancel()
                case .sleep(let timer, let deadline): sleep(.rule(timer), until: deadline)
                // If the timer runs again after this input, its sleep goes on.
                case .wake(let timer): if !machine.isRunning(timer) { wake(.rule(timer)) }
                }
            }
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
            guard let number = alarms[alarm] else { return }
            woken.append(sleeps[number]?.task)
            remove(alarm, number)
        }

        private mutating func remove(_ alarm: Alarm, _ number: UInt64) {
            let (sleep, index) = (sleeps.removeValue(forKey: number), alarms.index(forKey: alarm))
            gone += [sleep?.alarm, index.map { alarms.remove(at: $0).key }].compactMap { $0?.key }
        }
    }

    /// The limits, each once, in an order that is the same everywhere.
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

    /// Takes an event through the rules and then through limits.
    private func take(_ ticket: FluxTicket, _ limits: ArraySlice<FluxLimit>) {
        decide { $0.fired(Entry(ticket: ticket, limits: limits)) }
    }

    private func end(_ ticket: FluxTicket, _ limits: ArraySlice<FluxLimit>) {
        decide { table in
            // The limits behind first, so that an event that proceeds then finds its place there. This lock is held, so
            // that no event gets there meanwhile.
            if let limit = limits.first { limit.places.end(ticket, limits.dropFirst()) }
            table.ended(ticket)
        }
    }

    /// Decides while the lock is held; afterwards releases keys and cancels sleeps.
    @discardableResult private func decide<Result>(_ body: (inout Table) -> Result) -> Result {
        let (result, woken, gone) = table.withLock { table in
            let result = FluxPureCode.run("a key, condition or FluxRuling of a FluxRule, or the clock of one") {
                body(&table)
            }
            // While the lock is held, so that a task is recorded before it wakes up, and never replaces a later task.
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

    /// Cancels sleeps once no lock is held, because that calls the user's clock.
    private func cancel(_ sleeps: [_Concurrency.Task<Void, Never>?]) {
        if sleeps.isEmpty { return }
        FluxPureCode.after { for task in sleeps { task?.cancel() } }
    }
}

/// A clock of any type; its moments are durations since the rules were created, so that they can be compared.
nonisolated struct FluxRuleClock: Sendable {
    let now: @Sendable () -> Swift.Duration
    /// Sleeps until a moment, or until the clock throws, as it does when the task is cancelled.
    let sleep: @Sendable (_ deadline: Swift.Duration) async -> Void

    init(_ clock: some _Concurrency.Clock<Swift.Duration>) {
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleep = { try? await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
    }
}
