import Dispatch
import FluxCore
import FluxObservation

/// Every delivery, for tests that expect the same of each.
enum AnyDelivery: Equatable, Sendable {
    case every, latest, newest(Int), oldest(Int)

    func subscribe<Source: FluxSource>(
        _ source: Source, on queue: DispatchQueue? = nil, startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (Source.State) -> Void
    ) -> FluxSubscription {
        switch self {
        case .every: source.subscribe(.every, on: queue, startingWithCurrent: startingWithCurrent, handler)
        case .latest: source.subscribe(.latest, on: queue, startingWithCurrent: startingWithCurrent, handler)
        case .newest(let limit):
            source.subscribe(.buffered(newest: limit), on: queue, startingWithCurrent: startingWithCurrent, handler)
        case .oldest(let limit):
            source.subscribe(.buffered(oldest: limit), on: queue, startingWithCurrent: startingWithCurrent, handler)
        }
    }

    func states<Source: FluxSource>(_ source: Source, startingWithCurrent: Bool = true) -> FluxStates<
        Source.State, Never
    > {
        switch self {
        case .every: source.states(.every, startingWithCurrent: startingWithCurrent)
        case .latest: source.states(.latest, startingWithCurrent: startingWithCurrent)
        case .newest(let limit): source.states(.buffered(newest: limit), startingWithCurrent: startingWithCurrent)
        case .oldest(let limit): source.states(.buffered(oldest: limit), startingWithCurrent: startingWithCurrent)
        }
    }

    func values<Source: FluxSource, Value: Equatable & Sendable>(
        _ source: Source, of select: @escaping @Sendable (Source.State) -> Value
    ) -> FluxStates<Value, Never> {
        switch self {
        case .every: source.values(of: select, .every)
        case .latest: source.values(of: select, .latest)
        case .newest(let limit): source.values(of: select, .buffered(newest: limit))
        case .oldest(let limit): source.values(of: select, .buffered(oldest: limit))
        }
    }
}
