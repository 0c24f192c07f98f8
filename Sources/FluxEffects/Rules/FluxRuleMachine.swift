#if canImport(FluxCore)
    import FluxCore
#endif

/// Decides by rules which events run, wait or end: a pure state machine without a clock or threads.
///
/// An event passes through the rules in their order. Each rule that it passes registers it under its key until the
/// event ends. So a rule sees the events that have passed it, and not those that are still to come. An event waits only
/// for events that passed the same rule before it, so no two events can wait for each other. If an event ends another
/// one, the events that waited for the ended one continue only after the first event has advanced as far as it can: no
/// rule is applied in the middle of another.
///
/// The caller passes in each moment, as the time that a clock has run. A due timer elapses before an event reaches its
/// rule, even if the sleep for the timer has not ended yet: the clock alone decides what is over.
///
/// An event that is ended before it has started is removed at once. An event that is cancelled while it runs stays, and
/// others wait for it, until `ended`. By then none of its dispatches is running.
///
/// | input     | result                                                                       |
/// |-----------|------------------------------------------------------------------------------|
/// | `fire`    | start, drop or hold the event; cancel others; request a timer                 |
/// | `ended`   | start the events that waited for it                                           |
/// | `elapsed` | pass on the event that a debounce or throttle held                            |
///
/// Every input costs O(log n) for n events in flight, and O(k) if a condition has to check the k events of one key.
nonisolated struct FluxRuleMachine {
    typealias ID = UInt64

    /// Identifies the timer of one key at one rule.
    struct Timer: Hashable {
        let rule: Int
        let key: AnyHashable
    }

    /// What the caller has to do; it performs effects in the order returned.
    enum Effect {
        case start(ID)
        case end(ID, FluxTask.Outcome)
        case sleep(Timer, until: Swift.Duration)
        case wake(Timer)
    }

    struct Entry {
        let event: any FluxEvent
        let keys: [AnyHashable?]
        /// The index of the rule that it has to pass next.
        var stage = 0
        /// Its place in the group of each rule that it has passed, in order; last its place at the rule that holds it.
        var places: [(stage: Int, place: UInt64)] = []
        var blockers: Swift.Set<ID> = []
        var dependents: Swift.Set<ID> = []
        /// The rule whose condition makes it wait, and a place: it may have to wait for events before that place, too.
        var looking: (stage: Int, place: UInt64)?
        var isExecuting = false
        /// Whether it was cancelled while it ran, and its end is still to come.
        var isEnding = false
    }

    /// What the end of an event has made possible.
    private enum Work {
        case advance(ID)
        case refill(stage: Int, key: AnyHashable)
    }

    let rules: [FluxRuleForm]
    /// Whether a rule needs the moments; if not, the caller may pass zero.
    let isTimed: Bool
    private(set) var groups: [[AnyHashable: FluxRuleGroup]]
    private(set) var entries: [ID: Entry] = [:]
    /// Keys that are no longer needed; they are the user's values, and are released once no lock is held.
    private var gone: [AnyHashable] = []
    /// The moment of the current input.
    private var now = Swift.Duration.zero
    private var effects: [Effect] = []
    private var work: [Work] = []

    init(rules: [FluxRuleForm]) {
        self.rules = rules
        isTimed = rules.contains(where: \.isTimed)
        groups = rules.map { _ in [:] }
    }

    // MARK: - Inputs

    mutating func fire(_ id: ID, _ event: any FluxEvent, keys: [AnyHashable?], at now: Swift.Duration) -> [Effect] {
        entries[id] = Entry(event: event, keys: keys)
        return decide(at: now) { $0.advance(id) }
    }

    /// Removes an event that has run its course or was cancelled.
    mutating func ended(_ id: ID, at now: Swift.Duration) -> [Effect] { decide(at: now) { $0.remove(id) } }

    /// Lets a timer elapse whose sleep has ended.
    mutating func elapsed(_ timer: Timer, at now: Swift.Duration) -> [Effect] { decide(at: now) { $0.elapse(timer) } }

    /// Handles an input and then the work that it has made possible.
    ///
    /// A loop rather than a recursion, because events may end each other in a long chain.
    private mutating func decide(at now: Swift.Duration, _ input: (inout Self) -> Void) -> [Effect] {
        self.now = now
        input(&self)
        var next = 0
        while next < work.count {
            switch work[next] {
            case .advance(let id): advance(id)
            case .refill(let stage, let key): refill(stage, key)
            }
            next += 1
        }
        work = []
        return Swift.exchange(&effects, with: [])
    }

    mutating func takeGone() -> [AnyHashable] { Swift.exchange(&gone, with: []) }

    // MARK: - The walk of an event

    /// Advances an event through its rules until one ends or holds it, it has to wait for others, or it starts.
    private mutating func advance(_ id: ID) {
        while let entry = entries[id], entry.blockers.isEmpty, entry.places.last?.stage != entry.stage {
            if let (stage, place) = entry.looking {
                look(id, stage, before: place)
            } else if entry.stage == rules.count {
                entries[id]?.isExecuting = true
                return effects.append(.start(id))
            } else if let key = entry.keys[entry.stage] {
                apply(entry.stage, id, entry.event, key)
            } else {
                entries[id]?.stage += 1
            }
        }
    }

    /// Advances an event past the rule that held it.
    private mutating func pass(_ id: ID) {
        guard let place = entries[id]?.places.popLast(), let key = entries[id]?.keys[place.stage] else { return }
        join(place.stage, id, key)
        advance(id)
    }

    /// Applies one rule, which lets the event join its group unless it ends or holds the event.
    private mutating func apply(_ stage: Int, _ id: ID, _ event: any FluxEvent, _ key: AnyHashable) {
        let timer = Timer(rule: stage, key: key)
        switch rules[stage].kind {
        case .unique(cancelsEarlier: true, let condition):
            cancel(matching(stage, key, event, condition), before: id)
        case .unique(cancelsEarlier: false, let condition):
            if !matching(stage, key, event, condition).isEmpty { return end(id, .dropped) }
        case .sequence:
            look(id, stage, before: .max)
        case .concurrency(let limit, let waiting):
            let (passed, held) = groups[stage][key].map { ($0.members.count, $0.held.count) } ?? (0, 0)
            if let waiting, passed + held - limit >= waiting { return end(id, .dropped) }
            if held > 0 || passed >= limit { return hold(stage, id, key) }
        case .debounce(let duration):
            elapseIfDue(timer)
            hold(stage, id, key, isAlone: true)
            return sleep(timer, duration)
        case .throttle(let interval, let latest):
            elapseIfDue(timer)
            if isRunning(timer) {
                return latest ? hold(stage, id, key, isAlone: true) : end(id, .dropped)
            }
            sleep(timer, interval)
        case .retry, .shared:
            break
        case .custom(let ruling):
            // The ruling shares this storage, and releases it before anything changes: so nothing is copied.
            switch ruling(event, groups[stage][key] ?? FluxRuleGroup(), entries) {
            case .start: break
            case .drop: return end(id, .dropped)
            case .cancel(let others): cancel(others.filter { isMember($0, stage, key) }, before: id)
            case .wait(let others): block(id, until: others.filter { isMember($0, stage, key) })
            }
        }
        join(stage, id, key)
    }

    /// Returns whether an event has passed a rule with a key.
    private func isMember(_ id: ID, _ stage: Int, _ key: AnyHashable) -> Bool {
        guard let place = entries[id]?.places.first(where: { $0.stage == stage })?.place else { return false }
        return groups[stage][key]?.members[place] == id
    }

    private func matching(
        _ stage: Int, _ key: AnyHashable, _ event: any FluxEvent, _ condition: FluxRuleForm.Condition?
    ) -> [ID] {
        let ids = groups[stage][key]?.ids ?? []
        guard let condition else { return ids }
        return ids.filter { id in entries[id].map { condition(event, $0.event) } ?? false }
    }

    // MARK: - Holding

    /// Lets an event pass a rule: it joins the group of its key, and goes on to the next rule.
    private mutating func join(_ stage: Int, _ id: ID, _ key: AnyHashable) {
        let place = groups[stage][key, default: FluxRuleGroup()].add(id)
        entries[id]?.places.append((stage, place))
        entries[id]?.stage += 1
    }

    private mutating func hold(_ stage: Int, _ id: ID, _ key: AnyHashable, isAlone: Bool = false) {
        if isAlone, let former = groups[stage][key]?.next() { end(former, .dropped) }
        let place = groups[stage][key, default: FluxRuleGroup()].hold(id)
        entries[id]?.places.append((stage, place))
    }

    // MARK: - Timers

    func isRunning(_ timer: Timer) -> Bool { groups[timer.rule][timer.key]?.deadline != nil }

    private mutating func sleep(_ timer: Timer, _ duration: Swift.Duration) {
        let deadline = now + Swift.min(duration, Self.longest)
        groups[timer.rule][timer.key, default: FluxRuleGroup()].deadline = deadline
        effects.append(.sleep(timer, until: deadline))
    }

    /// About a century, because the system's clocks stop the program if they are given more than they can count.
    static var longest: Swift.Duration { .seconds(Int64(3_000_000_000)) }

    private mutating func elapseIfDue(_ timer: Timer) {
        guard let deadline = groups[timer.rule][timer.key]?.deadline, deadline <= now else { return }
        effects.append(.wake(timer))
        elapse(timer)
    }

    private mutating func elapse(_ timer: Timer) {
        groups[timer.rule][timer.key]?.deadline = nil
        if let held = groups[timer.rule][timer.key]?.next() {
            if case .throttle(let interval, _) = rules[timer.rule].kind { sleep(timer, interval) }
            pass(held)
        }
        tidy(timer.rule, timer.key)
    }

    // MARK: - Waiting for others

    private mutating func block(_ id: ID, until others: [ID]) {
        for other in others where entries[other] != nil {
            entries[id]?.blockers.insert(other)
            entries[other]?.dependents.insert(id)
        }
    }

    /// Makes an event wait for the last event before a place that meets the condition.
    ///
    /// When that event has ended, the waiting event looks for the next. So it registers with only one at a time.
    private mutating func look(_ id: ID, _ stage: Int, before place: UInt64) {
        entries[id]?.looking = nil
        guard let entry = entries[id], let key = entry.keys[stage], case .sequence(let condition) = rules[stage].kind,
            let last = groups[stage][key]?.last(
                before: place, where: { other in entries[other].map { condition(entry.event, $0.event) } ?? false })
        else { return }
        entries[id]?.looking = (stage, last.place)
        block(id, until: [last.id])
    }

    /// Cancels other events, and makes an event wait for those that are running.
    private mutating func cancel(_ others: [ID], before id: ID) {
        for other in others { end(other, .cancelled) }
        block(id, until: others)
    }

    /// Passes on held events while there is room behind a rule that limits how many events of one key are in flight.
    private mutating func refill(_ stage: Int, _ key: AnyHashable) {
        guard case .concurrency(let limit, _) = rules[stage].kind else { return }
        while groups[stage][key]?.members.count ?? 0 < limit, let next = groups[stage][key]?.next() { pass(next) }
    }

    // MARK: - Ending

    private mutating func end(_ id: ID, _ outcome: FluxTask.Outcome) {
        guard let entry = entries[id], !entry.isEnding else { return }
        effects.append(.end(id, outcome))
        if entry.isExecuting { entries[id]?.isEnding = true } else { remove(id) }
    }

    private mutating func remove(_ id: ID) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        gone += entry.keys.compactMap { $0 }
        // The later rule first: the events that wait there were fired before those that wait at an earlier rule.
        for (stage, place) in entry.places.reversed() { leave(stage, entry.keys[stage]!, place) }
        for blocker in entry.blockers { entries[blocker]?.dependents.remove(id) }
        for dependent in entry.dependents.sorted() {
            entries[dependent]?.blockers.remove(id)
            if entries[dependent]?.blockers.isEmpty == true { work.append(.advance(dependent)) }
        }
    }

    /// Gives up a place in a group.
    private mutating func leave(_ stage: Int, _ key: AnyHashable, _ place: UInt64) {
        groups[stage][key]?.leave(place)
        if groups[stage][key]?.isHolding == true {
            work.append(.refill(stage: stage, key: key))
        } else if case .debounce = rules[stage].kind, groups[stage][key]?.deadline != nil {
            // The timer ran for this event alone.
            groups[stage][key]?.deadline = nil
            effects.append(.wake(Timer(rule: stage, key: key)))
        }
        tidy(stage, key)
    }

    private mutating func tidy(_ stage: Int, _ key: AnyHashable) {
        // The stored key is that of the event that began the group: equal to `key`, but maybe another object.
        guard let index = groups[stage].index(forKey: key), groups[stage].values[index].isIdle else { return }
        gone.append(groups[stage].remove(at: index).key)
    }
}
