#if canImport(FluxCore)
    import FluxCore
#endif

/// Decides which events run, wait or go, by the rules of a creator: a pure state machine without time or threads.
///
/// An event walks through the rules in their order. At each it is registered under its key until it ends, so a rule sees
/// those that have passed it and not those behind. An event waits only for events that passed the same rule before it,
/// so no two can wait for each other. What the end of an event lets go on is looked at after the event that ended it has
/// gone as far as it can: no rule is applied in the middle of another.
///
/// What is ended before it has started goes at once. What is cancelled while it runs stays, and is waited for, until `ended`:
/// by then no dispatch of it is under way.
///
/// | input     | result                                                                       |
/// |-----------|------------------------------------------------------------------------------|
/// | `fire`    | start, drop or hold the event; cancel others; ask for a timer                 |
/// | `ended`   | start those that waited for it                                                |
/// | `elapsed` | let go on what a debounce or throttle held                                    |
///
/// Every input costs O(log n) for n events in flight, and O(k) where a condition has to look at the k of one key.
nonisolated struct FluxRuleMachine<Event: Sendable> {
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

    struct Entry {
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
        /// Cancelled while it ran: its end is still to come.
        var isEnding = false
    }

    /// What the end of an event has made possible.
    enum Work {
        case advance(ID)
        case refill(stage: Int, key: AnyHashable)
    }

    let rules: [FluxRule<Event>]
    var groups: [[AnyHashable: FluxRuleGroup]]
    var entries: [ID: Entry] = [:]
    var effects: [Effect] = []
    var work: [Work] = []

    /// How much is kept, of whatever kind; 0 when all events have ended and all timers elapsed.
    var weight: Int {
        let events = entries.values.reduce(0) { $0 + 1 + $1.blockers.count + $1.dependents.count }
        return groups.reduce(events) { $0 + $1.values.reduce(0) { $0 + 1 + $1.members.count + $1.queue.count } }
    }

    init(rules: [FluxRule<Event>]) {
        self.rules = rules
        groups = rules.map { _ in [:] }
    }

    // MARK: - Inputs

    mutating func fire(_ id: ID, _ event: Event, keys: [AnyHashable?]) -> [Effect] {
        entries[id] = Entry(event: event, keys: keys)
        advance(id)
        return takeEffects()
    }

    /// The event has ended, of itself or because somebody cancelled it.
    mutating func ended(_ id: ID) -> [Effect] {
        remove(id)
        return takeEffects()
    }

    mutating func elapsed(_ timer: Timer) -> [Effect] {
        guard var group = groups[timer.rule][timer.key], group.isTiming else { return [] }
        let held = group.held
        group.held = nil
        group.isTiming = false
        if held != nil, case .throttle(let interval, _) = rules[timer.rule].kind {
            group.isTiming = true
            effects.append(.sleep(timer, interval))
        }
        groups[timer.rule][timer.key] = group.isIdle ? nil : group
        if let held { pass(held) }
        return takeEffects()
    }

    mutating func takeEffects() -> [Effect] {
        settle()
        defer { effects = [] }
        return effects
    }

    /// Does what has become possible: a loop, as a long row of events may end each other.
    mutating func settle() {
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
}
