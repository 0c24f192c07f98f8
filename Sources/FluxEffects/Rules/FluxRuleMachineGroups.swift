#if canImport(FluxCore)
    import FluxCore
#endif

/// What the machine knows of the events of each key, and what it does where one of them goes.
nonisolated extension FluxRuleMachine {
    // MARK: - Groups

    mutating func register(_ id: ID, _ stage: Int, _ key: AnyHashable) {
        let ticket = groups[stage][key, default: FluxRuleGroup()].add(id)
        entries[id]?.tickets.append((stage, ticket))
    }

    func all(_ stage: Int, _ key: AnyHashable) -> [ID] {
        groups[stage][key]?.ids ?? []
    }

    func last(_ stage: Int, _ key: AnyHashable) -> [ID] {
        groups[stage][key]?.members.last.map { [$0] } ?? []
    }

    func matching(
        _ stage: Int, _ key: AnyHashable, _ event: Event, _ condition: FluxRule<Event>.Condition?
    ) -> [ID] {
        let ids = all(stage, key)
        guard let condition else { return ids }
        return ids.filter { id in entries[id].map { condition(event, $0.event) } ?? false }
    }

    /// Keeps an event for the timer of its key, in place of the one that was kept.
    mutating func hold(_ id: ID, _ stage: Int, _ key: AnyHashable) {
        let former = groups[stage][key]?.held
        groups[stage][key, default: FluxRuleGroup()].held = id
        groups[stage][key]?.isTiming = true
        if let former { end(former, .dropped) }
    }

    mutating func block(_ id: ID, until others: [ID]) {
        for other in others where other != id && entries[other] != nil {
            entries[id]?.blockers.insert(other)
            entries[other]?.dependents.insert(id)
        }
    }

    // MARK: - Ending

    mutating func end(_ id: ID, _ outcome: FluxTask.Outcome) {
        guard let entry = entries[id], !entry.isEnding else { return }
        effects.append(.end(id, outcome))
        if entry.isExecuting { entries[id]?.isEnding = true } else { remove(id) }
    }

    mutating func remove(_ id: ID) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        if entry.stage < rules.count, let key = entry.keys[entry.stage] { unhold(id, entry, key) }
        // The later rule first: those that wait there were fired before those that wait at an earlier one.
        for (stage, ticket) in entry.tickets.reversed() { leave(stage, entry.keys[stage]!, ticket) }
        for blocker in entry.blockers { entries[blocker]?.dependents.remove(id) }
        for dependent in entry.dependents.sorted() {
            entries[dependent]?.blockers.remove(id)
            if isBetween(entry, dependent) { block(dependent, until: Array(entry.blockers)) }
            if entries[dependent]?.blockers.isEmpty == true { work.append(.advance(dependent)) }
        }
    }

    /// Whether an event that is taken out of a sequence has to hand on what it waited for itself.
    ///
    /// Only where the one behind it waits for it in place of all: everywhere else each waits for all that it has to.
    func isBetween(_ entry: Entry, _ dependent: ID) -> Bool {
        guard !entry.blockers.isEmpty, entries[dependent]?.stage == entry.stage else { return false }
        if case .sequence(nil) = rules[entry.stage - 1].kind { return true }
        return false
    }

    mutating func unhold(_ id: ID, _ entry: Entry, _ key: AnyHashable) {
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
    mutating func leave(_ stage: Int, _ key: AnyHashable, _ ticket: UInt64) {
        _ = groups[stage][key]?.members.remove(id: ticket)
        if groups[stage][key]?.isQueuing == true { work.append(.refill(stage: stage, key: key)) }
        tidy(stage, key)
    }

    // MARK: - Queues

    mutating func enqueue(_ id: ID, _ stage: Int, _ key: AnyHashable) {
        groups[stage][key]?.enqueue(id)
        entries[id]?.isQueued = true
    }

    mutating func dequeue(_ stage: Int, _ key: AnyHashable) {
        let entries = entries
        groups[stage][key]?.dequeue { entries[$0] != nil }
    }

    /// Lets those go on for which there is a place now.
    mutating func refill(_ stage: Int, _ key: AnyHashable) {
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

    mutating func tidy(_ stage: Int, _ key: AnyHashable) {
        if groups[stage][key]?.isIdle == true { groups[stage][key] = nil }
    }
}
