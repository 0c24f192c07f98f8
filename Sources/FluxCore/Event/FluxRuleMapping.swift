nonisolated extension FluxRule {
    /// The same rule for events without a type, as the creator's account of those in flight holds them.
    func erased() -> FluxRule<FluxAnyEvent> {
        mapped { fluxRead($0.event, as: Event.self) }
    }

    /// The same rule for events that have such an event in them.
    func mapped<Other: FluxEvent>(_ event: @escaping @Sendable (Other) -> Event) -> FluxRule<Other> {
        func mapped(_ condition: Condition?) -> FluxRule<Other>.Condition? {
            guard let condition else { return nil }
            return { dispatching, executing in condition(event(dispatching), event(executing)) }
        }
        let newKind: FluxRule<Other>.Kind =
            switch kind {
            case .unique(.earlier, let condition): .unique(.earlier, mapped(condition))
            case .unique(.later, let condition): .unique(.later, mapped(condition))
            case .sequence(let condition): .sequence(mapped(condition))
            case .debounce(let duration): .debounce(duration)
            case .throttle(let interval, let latest): .throttle(interval, latest: latest)
            case .concurrency(let limit): .concurrency(limit)
            case .retry(let limit, let backoff): .retry(limit: limit, backoff)
            case .custom(let ruling): .custom(FluxMappedRuling(ruling, event))
            }
        let key = key
        return FluxRule<Other>(kind: newKind) { key(event($0)) }
    }
}

/// A rule of the user's own for events that have the ones it knows in them.
nonisolated private struct FluxMappedRuling<Event: FluxEvent>: FluxRuling {
    private let body: @Sendable (Event, [FluxInFlight<Event>]) -> FluxDecision

    init<Inner>(_ ruling: some FluxRuling<Inner>, _ event: @escaping @Sendable (Event) -> Inner) {
        body = { fired, inFlight in
            ruling.decide(
                on: event(fired),
                inFlight: inFlight.map {
                    FluxInFlight(id: $0.id, event: event($0.event), isExecuting: $0.isExecuting)
                })
        }
    }

    func decide(on event: Event, inFlight: [FluxInFlight<Event>]) -> FluxDecision {
        body(event, inFlight)
    }
}
