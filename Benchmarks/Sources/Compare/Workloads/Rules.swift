import FluxCore
import FluxEffects
import Synchronization
import Workbench

/// Keeps its handlers until they are released from outside, so that its events stay in flight.
private enum Holding: FluxActionConverter {
    struct Event: FluxEvent { let key: Int }

    final class Handlers: Sendable {
        let held = Mutex<[@Sendable (Sample.Action) -> Void]>([])
    }

    static func convert(
        event: Event, dependency: Handlers, actionHandler: @escaping @Sendable (Sample.Action) -> Void
    ) {
        dependency.held.withLock { $0.append(actionHandler) }
    }
}

/// Starts every event.
private struct Lenient: FluxRuling {
    func decide(on event: Holding.Event, inFlight: FluxInFlightEvents<Holding.Event>) -> FluxDecision { .start }
}

/// Counts the events in flight without looking at any of them.
private struct Counting: FluxRuling {
    func decide(on event: Holding.Event, inFlight: FluxInFlightEvents<Holding.Event>) -> FluxDecision {
        inFlight.count < 1_000_000 ? .start : .drop
    }
}

/// Suspends once, so that a limit is reached.
private enum Yielding: FluxAsyncActionConverter {
    struct Event: FluxEvent {}

    static func convert(
        event: Event, dependency: Void, send: @escaping @Sendable (Sample.Action) -> Void
    ) async throws {
        await Task.yield()
        send(.add(1))
    }
}

extension Workload {
    private static let kinds: [(name: String, rule: FluxRule<Holding.Event>)] = [
        ("unique, earlier", .unique(cancelling: .earlier, for: { $0.key })),
        ("unique, later", .unique(cancelling: .later, for: { $0.key })),
        ("sequence", .sequence(for: { $0.key })),
        ("sequence of all", .sequence(for: { _ in 0 })),
        ("debounce", .debounce(for: { $0.key }, .seconds(3_600))),
        ("throttle", .throttle(for: { $0.key }, .seconds(3_600), latest: true)),
        ("concurrency", .concurrency(10)),
        ("concurrency, with an end to the row", .concurrency(5, waiting: 5)),
        ("shared limit", .concurrency(FluxLimit(10))),
        ("custom", .custom(Lenient(), for: { $0.key })),
        ("custom, counting all", .custom(Counting())),
    ]

    /// A cost that grows with the logarithm is four times as high for 10,000 events as for 10.
    static let rules = Workload(
        name: "w1r",
        title: "fire under a rule, with 10 and with 10,000 events in flight",
        cells: kinds.map { kind in
            Cell(kind.name) { effort in
                [10, 10_000].map { count in
                    let name = "\(kind.name), \(count) in flight"
                    return Reading(name: name, value: effort.measure { fire(1_000, among: count, kind.rule) })
                }
            }
        },
        bounds: kinds.map { .ratio("\($0.name), 10000 in flight", atMost: 4, of: "\($0.name), 10 in flight") }
    )

    /// The cost of an event does not grow with the number of waiting creators.
    static let sharedLimit = Workload(
        name: "w1l",
        title: "an event on each of many creators, fire to applied, all with one limit of 40",
        cells: [
            Cell("a limit") { effort in
                try [100, 10_000].map { count in
                    let store = FluxStore(initialState: Sample(), dispatcher: nil)
                    let limit = FluxLimit(40)
                    let creators = (0..<count).map { _ in
                        FluxActionCreator<Yielding>(store: store, rules: [.concurrency(limit)])
                    }
                    let value = try effort.measure(count, total: { store.state.count }) { _ in
                        for creator in creators { creator.fire(.init()) }
                        blocking { for creator in creators { await creator.flush() } }
                    }
                    return Reading(name: "\(count) creators", value: value)
                }
            }
        ],
        bounds: [.ratio("10000 creators", atMost: 4, of: "100 creators")]
    )

    /// Returns the time to fire one event, in ns, among a number of events in flight; each has the key of one of them.
    private static func fire(_ events: Int, among inFlight: Int, _ rule: FluxRule<Holding.Event>) -> Double {
        let handlers = Holding.Handlers()
        let creator = FluxActionCreator<Holding>(
            dependency: handlers, store: FluxStore(initialState: Sample(), dispatcher: nil), rules: [rule])
        for key in 0..<inFlight { creator.fire(.init(key: key)) }
        let time = ContinuousClock().measure {
            for number in 0..<events { creator.fire(.init(key: number % inFlight)) }
        }
        creator.cancelAll()
        handlers.held.withLock { $0 = [] }
        return time / .nanoseconds(events)
    }
}
