import Dispatch

/// The events that the rules of a creator know of: what the rule machine decides on, and its ids stand for.
nonisolated struct FluxRuledFlights {
    typealias Rules = FluxRuleMachine<FluxAnyEvent>

    /// An event in flight; kept here so that its last reference goes outside the lock.
    struct Flight {
        let task: FluxTask
        let event: FluxAnyEvent
        let converter: any FluxConverting
        let queue: DispatchQueue?
        /// A rule holds it back, or it has not been looked at by all rules.
        var isHeld = true
    }

    /// What is to be done, in this order.
    enum Effect {
        case start(Flight)
        case end(Flight, FluxTask.Outcome)
        case chore(FluxFlights.Chore)
    }

    /// Somebody who waits for a timer to elapse.
    private struct Sleep {
        let timer: Rules.Timer
        var task: _Concurrency.Task<Void, Never>?
    }

    private var rules: Rules
    private var flights: [UInt64: Flight] = [:]
    private var sleeps: [UInt64: Sleep] = [:]
    private var timers: [Rules.Timer: UInt64] = [:]
    private var lastSleep: UInt64 = 0
    /// Those that a conversion awaits, by the id of their task; each goes when that ends.
    private var awaited: [UInt64: ContiguousArray<FluxSuspect>] = [:]

    init(rules: [FluxRule<FluxAnyEvent>]) {
        self.rules = Rules(rules: rules)
    }

    // MARK: - Inputs

    mutating func fire(
        _ task: FluxTask, _ event: any Sendable, _ keys: [AnyHashable?], _ converter: any FluxConverting,
        _ queue: DispatchQueue?
    ) -> [Effect] {
        let id = task.id
        let event = FluxAnyEvent(event: event)
        flights[id] = Flight(task: task, event: event, converter: converter, queue: queue)
        return effects(rules.fire(id, event, keys: keys))
    }

    /// An event has ended; returns what was known of it.
    mutating func ended(_ task: FluxTask) -> (Flight?, [Effect]) {
        let id = task.id
        let flight = flights.removeValue(forKey: id)
        awaited[id] = nil
        return (flight, effects(rules.ended(id)))
    }

    /// Somebody who slept has woken up; nil: nobody waits for that any longer.
    mutating func elapsed(_ sleep: UInt64) -> [Effect]? {
        guard let timer = sleeps.removeValue(forKey: sleep)?.timer else { return nil }
        timers[timer] = nil
        return effects(rules.elapsed(timer))
    }

    /// Keeps the task that sleeps, to be cancelled; false: nobody wants it any longer.
    mutating func keep(_ task: _Concurrency.Task<Void, Never>, _ sleep: UInt64) -> Bool {
        sleeps[sleep]?.task = task
        return sleeps[sleep] != nil
    }

    // MARK: - Those who wait for each other

    mutating func suspect(_ suspect: FluxSuspect) {
        // One that is not known any more has ended, and its end would never take this out again.
        if flights[suspect.task.id] != nil { awaited[suspect.task.id, default: []].append(suspect) }
    }

    /// Somebody has stopped waiting for a task.
    mutating func clear(_ suspect: FluxSuspect) {
        guard let index = awaited[suspect.task.id]?.firstIndex(where: { $0.waiter === suspect.waiter }) else { return }
        awaited[suspect.task.id]?.remove(at: index)
        if awaited[suspect.task.id]?.isEmpty == true { awaited[suspect.task.id] = nil }
    }

    /// Those that a conversion awaits, if what was decided may have made them wait for it.
    mutating func suspects() -> ContiguousArray<FluxSuspect> {
        rules.takeNewWaits() && !awaited.isEmpty ? ContiguousArray(awaited.values.joined()) : []
    }

    /// Those who wait for a timer.
    var sleepers: [_Concurrency.Task<Void, Never>] { sleeps.values.compactMap(\.task) }

    func ahead(of task: FluxTask) -> FluxAhead {
        let (all, any) = rules.ahead(of: task.id)
        return FluxAhead(
            all: ContiguousArray(all.compactMap { flights[$0]?.task }),
            any: ContiguousArray(any.compactMap { flights[$0]?.task }))
    }

    // MARK: - Support

    private mutating func effects(_ decided: [Rules.Effect]) -> [Effect] {
        decided.compactMap { effect in
            switch effect {
            case .start(let id):
                flights[id]?.isHeld = false
                return flights[id].map { .start($0) }
            case .end(let id, let outcome):
                awaited[id] = nil
                return flights.removeValue(forKey: id).map { .end($0, outcome) }
            case .sleep(let timer, let duration):
                lastSleep += 1
                timers[timer] = lastSleep
                sleeps[lastSleep] = Sleep(timer: timer)
                return .chore(.sleep(lastSleep, duration))
            case .wake(let timer):
                let task = timers.removeValue(forKey: timer).flatMap { sleeps.removeValue(forKey: $0)?.task }
                return task.map { .chore(.wake($0)) }
            }
        }
    }
}
