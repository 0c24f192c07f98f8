import FluxCore

/// Does what its event says, asynchronously, and records each start and end.
public enum WorkConverter: FluxAsyncActionConverter {
    /// The work of a conversion, with its number.
    public enum Event: FluxEvent, Equatable {
        case add(Int)
        case fail(Int)
        case job(String, Int)

        /// The number under which the conversion is recorded.
        public var number: Int {
            switch self {
            case .add(let number), .fail(let number), .job(_, let number): number
            }
        }
    }

    /// The actions of counters.
    public typealias Action = Counter.Action

    /// The error that an event that fails throws.
    public struct Failure: Error, Equatable {
        /// The number of the event.
        public let number: Int

        /// Creates the failure of the event with a number.
        public init(number: Int) {
            self.number = number
        }
    }

    /// Makes conversions wait, by the number of their event, and records their progress.
    public final class Site: Sendable {
        private let gates = Locked<[Int: Gate]>([:])
        /// The numbers of the conversions that have begun.
        public let started = Recorder<Int>()
        /// The numbers of the conversions that have ended.
        public let ended = Recorder<Int>()
        /// The number of each event that failed, once for each attempt.
        public let attempts = Recorder<Int>()
        /// Whether the conversion with a number waits for its gate.
        let held: @Sendable (Int) -> Bool

        /// Creates a site at which some conversions wait, or none.
        public init(held: @escaping @Sendable (Int) -> Bool = { _ in false }) {
            self.held = held
        }

        /// Returns the gate for a number, the same one at each call.
        public func gate(_ number: Int) -> Gate {
            gates.withLock { gates in
                let gate = gates[number] ?? Gate()
                gates[number] = gate
                return gate
            }
        }
    }

    /// Waits if the site says so, then sends or throws.
    public static func convert(
        event: Event, dependency site: Site, send: @escaping @Sendable (Action) -> Void
    ) async throws {
        site.started.record(event.number)
        defer { site.ended.record(event.number) }
        if site.held(event.number) { await site.gate(event.number).opened() }
        switch event {
        case .add(let number), .job(_, let number): send(.add(number))
        case .fail(let number):
            site.attempts.record(number)
            throw Failure(number: number)
        }
    }

    /// Returns an action for a failure, except for that of number 0.
    public static func action(for error: any Error, event: Event) -> Action? {
        event == .fail(0) ? nil : .add(-1)
    }
}

extension FluxTask.Outcome {
    /// A name for comparisons in tests.
    public var name: String {
        switch self {
        case .completed: "completed"
        case .failed: "failed"
        case .cancelled: "cancelled"
        case .dropped: "dropped"
        }
    }
}

extension FluxTask.LifeEvent {
    /// A name for comparisons in tests.
    public var name: String {
        switch self {
        case .started: "started"
        case .actionSent: "sent"
        case .retrying(let attempt, _): "retrying \(attempt)"
        case .ended(let outcome): outcome.name
        }
    }
}
