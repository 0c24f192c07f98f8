#if canImport(FluxCore)
    import FluxCore
#endif

/// Decides which events run, wait or go, by the rules of a creator: a pure state machine without a clock or threads.
///
/// An event walks through the rules in their order. At each it is registered under its key until it ends, so a rule sees
/// those that have passed it and not those behind. An event waits only for events that passed the same rule before it,
/// so no two can wait for each other. What the end of an event lets go on is looked at after the event that ended it has
/// gone as far as it can: no rule is applied in the middle of another.
///
/// Moments are told to it, as how long a clock has run by then. A timer whose moment has come elapses before an event comes under
/// its rule, though nobody has woken up for it yet: what is over is a matter of the clock alone.
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
nonisolated struct FluxRuleMachine {
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
        case sleep(Timer, until: Swift.Duration)
        case wake(Timer)
    }

    struct Entry {
        let event: any FluxEvent
        let keys: [AnyHashable?]
        /// The rule that it has to pass next.
        var stage = 0
        /// Its place in the group of each rule that it has passed, in their order, and last in that of the rule that holds it.
        var places: [(stage: Int, place: UInt64)] = []
        var blockers: Swift.Set<ID> = []
        var dependents: Swift.Set<ID> = []
        /// The rule by whose condition it waits, and the place before which others may be that it has to wait for as well.
        var looking: (stage: Int, place: UInt64)?
        var isExecuting = false
        /// Cancelled while it ran: its end is still to come.
        var isEnding = false
    }

    /// What the end of an event has made possible.
    private enum Work {
        case advance(ID)
        case refill(stage: Int, key: AnyHashable)
    }

    let rules: [FluxRuleForm]
    /// Whether it minds the moments: else they may be told to it as zero.
    let isTimed: Bool
    private(set) var groups: [[AnyHashable: FluxRuleGroup]]
    private(set) var entries: [ID: Entry] = [:]
    /// Keys that are needed no longer: they are the user's, and let go of once no lock is held.
    private var gone: [AnyHashable] = []
    /// The moment of the input at hand.
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
        self.now = now
        entries[id] = Entry(event: event, keys: keys)
        advance(id)
        return takeEffects()
    }

    /// The event has ended, of itself or because somebody cancelled it.
    mutating func ended(_ id: ID, at now: Swift.Duration) -> [Effect] {
        self.now = now
        remove(id)
        return takeEffects()
    }

    /// Somebody who slept for a timer has woken up.
    mutating func elapsed(_ timer: Timer, at now: Swift.Duration) -> [Effect] {
        self.now = now
        elapse(timer)
        return takeEffects()
    }

    /// Does what has become possible: a loop, as a long row of events may end each other.
    private mutating func takeEffects() -> [Effect] {
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

    /// Takes an event through its rules until one holds it or it starts.
    private mutating func advance(_ id: ID) {
        while let entry = entries[id], entry.blockers.isEmpty {
            if let (stage, place) = entry.looking {
                look(id, stage, before: place)
                continue
            }
            guard entry.stage < rules.count else {
                entries[id]?.isExecuting = true
                effects.append(.start(id))
                return
            }
            if let key = entry.keys[entry.stage] {
                guard apply(entry.stage, id, entry.event, key) else { return }
                join(entry.stage, id, key)
            }
            entries[id]?.stage += 1
        }
    }

    /// Lets an event go on behind the rule that held it.
    private mutating func pass(_ id: ID) {
        guard let place = entries[id]?.places.popLast(), let key = entries[id]?.keys[place.stage] else { return }
        join(place.stage, id, key)
        entries[id]?.stage += 1
        advance(id)
    }

    /// Applies one rule; false: the event does not go on for now.
    private mutating func apply(_ stage: Int, _ id: ID, _ event: any FluxEvent, _ key: AnyHashable) -> Bool {
        let timer = Timer(rule: stage, key: key)
        switch rules[stage].kind {
        case .unique(cancelsEarlier: true, let condition):
            cancel(matching(stage, key, event, condition), before: id)
        case .unique(cancelsEarlier: false, let condition):
            if matching(stage, key, event, condition).isEmpty { return true }
            end(id, .dropped)
            return false
        case .sequence:
            look(id, stage, before: .max)
        case .concurrency(let limit, let waiting):
            let (passed, held) = groups[stage][key].map { ($0.members.count, $0.held.count) } ?? (0, 0)
            if held == 0 && passed < limit { return true }
            if let waiting, passed + held - limit >= waiting { end(id, .dropped) } else { hold(stage, id, key) }
            return false
        case .debounce(let duration):
            elapseIfDue(timer)
            hold(stage, id, key, isAlone: true)
            sleep(timer, duration)
            return false
        case .throttle(let interval, let latest):
            elapseIfDue(timer)
            if groups[stage][key]?.deadline == nil {
                sleep(timer, interval)
                return true
            }
            if latest { hold(stage, id, key, isAlone: true) } else { end(id, .dropped) }
            return false
        case .retry, .shared:
            break
        case .custom(let ruling):
            // What it is shown is shared, and gone before anything changes: so nothing is copied.
            switch ruling(event, groups[stage][key] ?? FluxRuleGroup(), entries) {
            case .start: break
            case .drop:
                end(id, .dropped)
                return false
            case .cancel(let others): cancel(others.filter { isMember($0, stage, key) }, before: id)
            case .wait(let others): block(id, until: others.filter { isMember($0, stage, key) })
            }
        }
        return true
    }

    /// Whether an event has passed a rule, with a key.
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

    private mutating func join(_ stage: Int, _ id: ID, _ key: AnyHashable) {
        let place = groups[stage][key, default: FluxRuleGroup()].add(id)
        entries[id]?.places.append((stage, place))
    }

    private mutating func hold(_ stage: Int, _ id: ID, _ key: AnyHashable, isAlone: Bool = false) {
        if isAlone, let former = groups[stage][key]?.next() { end(former, .dropped) }
        let place = groups[stage][key, default: FluxRuleGroup()].hold(id)
        entries[id]?.places.append((stage, place))
    }

    // MARK: - Timers

    private mutating func sleep(_ timer: Timer, _ duration: Swift.Duration) {
        let deadline = now + Swift.min(duration, Self.longest)
        groups[timer.rule][timer.key, default: FluxRuleGroup()].deadline = deadline
        effects.append(.sleep(timer, until: deadline))
    }

    /// A century: the clocks of the system stop the program where they are given more than they can count.
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

    /// Has an event wait for the last before a place that the condition is true of.
    ///
    /// When that has ended, it looks for the next: so no event keeps more than one of all that it waits for.
    private mutating func look(_ id: ID, _ stage: Int, before place: UInt64) {
        entries[id]?.looking = nil
        guard let entry = entries[id], let key = entry.keys[stage], case .sequence(let condition) = rules[stage].kind,
            let last = groups[stage][key]?.last(
                before: place, where: { other in entries[other].map { condition(entry.event, $0.event) } ?? false })
        else { return }
        entries[id]?.looking = (stage, last.place)
        block(id, until: [last.id])
    }

    /// Cancels others, and has an event wait for those that run.
    private mutating func cancel(_ others: [ID], before id: ID) {
        for other in others { end(other, .cancelled) }
        block(id, until: others)
    }

    /// Lets those go on for which there is room now, at a rule that limits how many of one key are in flight behind it.
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
        // The later rule first: those that wait there were fired before those that wait at an earlier one.
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
            // The one that it slept for.
            groups[stage][key]?.deadline = nil
            effects.append(.wake(Timer(rule: stage, key: key)))
        }
        tidy(stage, key)
    }

    private mutating func tidy(_ stage: Int, _ key: AnyHashable) {
        // The key of the group is that of the event that it began with.
        guard let index = groups[stage].index(forKey: key), groups[stage].values[index].isIdle else { return }
        gone.append(groups[stage].remove(at: index).key)
    }
}
