/// Decides which events run, wait or go, by the rules of a creator: a pure state machine without time or threads.
///
/// An event walks through the rules in their order. At each it is registered under its key until it ends, so a rule sees
/// those that have passed it and not those behind. An event waits only for events that passed the same rule before it,
/// so no two can wait for each other. What the end of an event lets go on is looked at after the event that ended it has
/// gone as far as it can: no rule is applied in the middle of another.
///
/// | input     | result                                                                       |
/// |-----------|------------------------------------------------------------------------------|
/// | `fire`    | start, drop or hold the event; cancel others; ask for a timer                 |
/// | `ended`   | start those that waited for it                                                |
/// | `elapsed` | let go on what a debounce or throttle held                                    |
///
/// Every input costs O(log n) for n events in flight, and O(k) where a condition has to look at the k of one key.
nonisolated struct FluxRuleMachine<Event: FluxEvent> {
    typealias ID = UInt64

    /// Names the timer of one key at one rule.
    struct Timer: Hashable {
        let rule: Int
        let key: AnyHashable
    }

    /// What to do, in this order.
    enum Effect {
        case start(ID)
        case end(ID, FluxTask.Outcome)
        case sleep(Timer, Swift.Duration)
        case wake(Timer)
    }

    private struct Entry {
        let event: Event
        let keys: [AnyHashable?]
        /// The rule that it has to pass next.
        var stage = 0
        /// Its place in the group of each rule that it has passed, in their order.
        var tickets: [(stage: Int, ticket: UInt64)] = []
        var blockers: Set<ID> = []
        var dependents: Set<ID> = []
        var isQueued = false
        var isExecuting = false
    }

    /// What the end of an event has made possible.
    private enum Work {
        case advance(ID)
        case refill(stage: Int, key: AnyHashable)
    }

    private let rules: [FluxRule<Event>]
    private var groups: [[AnyHashable: FluxRuleGroup]]
    private var entries: [ID: Entry] = [:]
    private var effects: [Effect] = []
    private var work: [Work] = []
    /// Whether one that was fired before waits for others since this was asked last.
    private var hasNewWaits = false

    /// How much is kept, of whatever kind; 0 when all events have ended and all timers elapsed.
    var weight: Int {
        let events = entries.values.reduce(0) { $0 + 1 + $1.blockers.count + $1.dependents.count }
        return groups.reduce(events) { $0 + $1.values.reduce(0) { $0 + 1 + $1.members.positions + $1.queue.count } }
    }

    init(rules: [FluxRule<Event>]) {
        self.rules = rules
        groups = rules.map { _ in [:] }
    }

    // MARK: - Inputs

    mutating func fire(_ id: ID, _ event: Event, keys: [AnyHashable?]) -> [Effect] {
        entries[id] = Entry(event: event, keys: keys)
        let before = hasNewWaits
        advance(id)
        // Nobody can wait for this one yet.
        hasNewWaits = before
        return takeEffects()
    }

    /// The event has ended, of itself or because somebody cancelled it.
    mutating func ended(_ id: ID) -> [Effect] {
        remove(id)
        return takeEffects()
    }

    mutating func elapsed(_ timer: Timer) -> [Effect] {
        guard var group = groups[timer.rule][timer.key], group.isTiming else { return [] }
        let held = fluxTake(&group.held)
        group.isTiming = false
        if held != nil, case .throttle(let interval, _) = rules[timer.rule].kind {
            group.isTiming = true
            effects.append(.sleep(timer, interval))
        }
        groups[timer.rule][timer.key] = group.isIdle ? nil : group
        if let held { pass(held) }
        return takeEffects()
    }

    /// What an event is held back by: all of the first have to end, and one of the second if there are any.
    ///
    /// What waits for a timer waits for no event.
    func ahead(of id: ID) -> (all: [ID], any: [ID]) {
        guard let entry = entries[id], !entry.isExecuting else { return ([], []) }
        guard entry.isQueued, let key = entry.keys[entry.stage] else { return (Array(entry.blockers), []) }
        return (Array(entry.blockers), groups[entry.stage][key]?.ids ?? [])
    }

    /// Whether events that were known have come to wait for others, since the last call.
    mutating func takeNewWaits() -> Bool {
        defer { hasNewWaits = false }
        return hasNewWaits
    }

    private mutating func takeEffects() -> [Effect] {
        settle()
        defer { effects = [] }
        return effects
    }

    /// Does what has become possible: a loop, as a long row of events may end each other.
    private mutating func settle() {
        var next = 0
        while next < work.count {
            switch work[next] {
            case .advance(let id): advance(id)
            case .refill(let stage, let key): refill(stage, key)
            }
            next += 1
        }
        if next > 0 { work = [] }
    }

    // MARK: - Walking through the rules

    /// Lets an event go on behind the rule that held it.
    private mutating func pass(_ id: ID) {
        entries[id]?.stage += 1
        advance(id)
    }

    /// Takes an event through its rules until one holds it or it starts.
    private mutating func advance(_ id: ID) {
        while let entry = entries[id], entry.blockers.isEmpty {
            guard entry.stage < rules.count else {
                entries[id]?.isExecuting = true
                effects.append(.start(id))
                return
            }
            let key = entry.keys[entry.stage]
            if let key, !apply(entry.stage, id, entry.event, key) { return }
            entries[id]?.stage += 1
        }
    }

    /// Applies one rule; false: the event does not go on for now.
    private mutating func apply(_ stage: Int, _ id: ID, _ event: Event, _ key: AnyHashable) -> Bool {
        switch rules[stage].kind {
        case .unique(.earlier, let condition):
            for other in matching(stage, key, event, condition) { end(other, .cancelled) }
            register(id, stage, key)
        case .unique(.later, let condition):
            if !matching(stage, key, event, condition).isEmpty {
                end(id, .dropped)
                return false
            }
            register(id, stage, key)
        case .sequence(let condition):
            // Without a condition the last one waits for all before it, so waiting for it is enough.
            let others = condition == nil ? last(stage, key) : matching(stage, key, event, condition)
            register(id, stage, key)
            block(id, until: others)
        case .debounce(let duration):
            let isTiming = groups[stage][key]?.isTiming == true
            hold(id, stage, key)
            if isTiming { effects.append(.wake(Timer(rule: stage, key: key))) }
            effects.append(.sleep(Timer(rule: stage, key: key), duration))
            return false
        case .throttle(let interval, let latest):
            if groups[stage][key]?.isTiming == true {
                if latest { hold(id, stage, key) } else { end(id, .dropped) }
                return false
            }
            groups[stage][key, default: FluxRuleGroup()].isTiming = true
            effects.append(.sleep(Timer(rule: stage, key: key), interval))
        case .concurrency(let limit):
            if groups[stage][key]?.hasPlace(limit) == false || groups[stage][key]?.isQueuing == true {
                enqueue(id, stage, key)
                return false
            }
            register(id, stage, key)
        case .retry:
            break
        case .custom(let ruling):
            return decide(ruling, stage, id, event, key)
        }
        return true
    }

    private mutating func decide(
        _ ruling: any FluxRuling<Event>, _ stage: Int, _ id: ID, _ event: Event, _ key: AnyHashable
    ) -> Bool {
        let inFlight = all(stage, key).compactMap { id in
            entries[id].map { FluxInFlight(id: id, event: $0.event, isExecuting: $0.isExecuting) }
        }
        let known = Set(inFlight.map(\.id))
        switch ruling.decide(on: event, inFlight: inFlight) {
        case .start: break
        case .drop:
            end(id, .dropped)
            return false
        case .cancel(let others):
            for other in others where known.contains(other) { end(other, .cancelled) }
        case .wait(let others):
            block(id, until: others.filter(known.contains))
        }
        register(id, stage, key)
        return true
    }

    // MARK: - Groups

    private mutating func register(_ id: ID, _ stage: Int, _ key: AnyHashable) {
        let ticket = groups[stage][key, default: FluxRuleGroup()].add(id)
        entries[id]?.tickets.append((stage, ticket))
    }

    private func all(_ stage: Int, _ key: AnyHashable) -> [ID] {
        groups[stage][key]?.ids ?? []
    }

    private func last(_ stage: Int, _ key: AnyHashable) -> [ID] {
        groups[stage][key]?.members.last.map { [$0] } ?? []
    }

    private func matching(
        _ stage: Int, _ key: AnyHashable, _ event: Event, _ condition: FluxRule<Event>.Condition?
    ) -> [ID] {
        let ids = all(stage, key)
        guard let condition else { return ids }
        return ids.filter { id in entries[id].map { condition(event, $0.event) } ?? false }
    }

    /// Keeps an event for the timer of its key, in place of the one that was kept.
    private mutating func hold(_ id: ID, _ stage: Int, _ key: AnyHashable) {
        let former = groups[stage][key]?.held
        groups[stage][key, default: FluxRuleGroup()].held = id
        groups[stage][key]?.isTiming = true
        if let former { end(former, .dropped) }
    }

    private mutating func block(_ id: ID, until others: [ID], isNew: Bool = true) {
        for other in others where other != id && entries[other] != nil {
            if isNew { hasNewWaits = true }
            entries[id]?.blockers.insert(other)
            entries[other]?.dependents.insert(id)
        }
    }

    // MARK: - Ending

    private mutating func end(_ id: ID, _ outcome: FluxTask.Outcome) {
        guard entries[id] != nil else { return }
        effects.append(.end(id, outcome))
        remove(id)
    }

    private mutating func remove(_ id: ID) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        if entry.stage < rules.count, let key = entry.keys[entry.stage] { unhold(id, entry, key) }
        // The later rule first: those that wait there were fired before those that wait at an earlier one.
        for (stage, ticket) in entry.tickets.reversed() { leave(stage, entry.keys[stage]!, ticket) }
        for blocker in entry.blockers { entries[blocker]?.dependents.remove(id) }
        for dependent in entry.dependents.sorted() {
            entries[dependent]?.blockers.remove(id)
            if isBetween(entry, dependent) { block(dependent, until: Array(entry.blockers), isNew: false) }
            if entries[dependent]?.blockers.isEmpty == true { work.append(.advance(dependent)) }
        }
    }

    /// Whether an event that is taken out of a sequence has to hand on what it waited for itself.
    ///
    /// Only where the one behind it waits for it in place of all: everywhere else each waits for all that it has to.
    private func isBetween(_ entry: Entry, _ dependent: ID) -> Bool {
        guard !entry.blockers.isEmpty, entries[dependent]?.stage == entry.stage else { return false }
        if case .sequence(nil) = rules[entry.stage - 1].kind { return true }
        return false
    }

    private mutating func unhold(_ id: ID, _ entry: Entry, _ key: AnyHashable) {
        let stage = entry.stage
        if entry.isQueued { return dequeue(stage, key) }
        guard groups[stage][key]?.held == id else { return }
        groups[stage][key]?.held = nil
        if case .debounce = rules[stage].kind {
            groups[stage][key]?.isTiming = false
            effects.append(.wake(Timer(rule: stage, key: key)))
            tidy(stage, key)
        }
    }

    /// Gives up a place in a group.
    private mutating func leave(_ stage: Int, _ key: AnyHashable, _ ticket: UInt64) {
        _ = groups[stage][key]?.members.remove(id: ticket)
        if groups[stage][key]?.isQueuing == true { work.append(.refill(stage: stage, key: key)) }
        tidy(stage, key)
    }

    // MARK: - Queues

    private mutating func enqueue(_ id: ID, _ stage: Int, _ key: AnyHashable) {
        hasNewWaits = true
        groups[stage][key]?.enqueue(id)
        entries[id]?.isQueued = true
    }

    private mutating func dequeue(_ stage: Int, _ key: AnyHashable) {
        let entries = entries
        groups[stage][key]?.dequeue { entries[$0] != nil }
    }

    /// Lets those go on for which there is a place now.
    private mutating func refill(_ stage: Int, _ key: AnyHashable) {
        guard case .concurrency(let limit) = rules[stage].kind else { return }
        while groups[stage][key]?.isQueuing == true && groups[stage][key]?.hasPlace(limit) == true {
            let next = groups[stage][key]!.next()
            guard entries[next] != nil else { continue }
            groups[stage][key]?.queued -= 1
            entries[next]?.isQueued = false
            register(next, stage, key)
            pass(next)
        }
    }

    private mutating func tidy(_ stage: Int, _ key: AnyHashable) {
        if groups[stage][key]?.isIdle == true { groups[stage][key] = nil }
    }
}
