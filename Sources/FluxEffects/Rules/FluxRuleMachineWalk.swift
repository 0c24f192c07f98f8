#if canImport(FluxCore)
    import FluxCore
#endif

/// How an event walks through the rules.
nonisolated extension FluxRuleMachine {
    /// Lets an event go on behind the rule that held it.
    mutating func pass(_ id: ID) {
        entries[id]?.stage += 1
        advance(id)
    }

    /// Takes an event through its rules until one holds it or it starts.
    mutating func advance(_ id: ID) {
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
    mutating func apply(_ stage: Int, _ id: ID, _ event: Event, _ key: AnyHashable) -> Bool {
        switch rules[stage].kind {
        case .unique(.earlier, let condition):
            let others = matching(stage, key, event, condition)
            register(id, stage, key)
            cancel(others, before: id)
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

    mutating func decide(
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
            register(id, stage, key)
            cancel(others.filter(known.contains), before: id)
            return true
        case .wait(let others):
            block(id, until: others.filter(known.contains))
        }
        register(id, stage, key)
        return true
    }

    /// Cancels others, and has an event wait for those that run.
    mutating func cancel(_ others: [ID], before id: ID) {
        for other in others { end(other, .cancelled) }
        block(id, until: others)
    }
}
