import FluxCore

/// Does what its event says, asynchronously; notes what starts and ends.
public enum WorkConverter: FluxAsyncActionConverter {
    /// What a conversion is to do, each with a number.
    public enum Event: FluxEvent, Equatable {
        case add(Int)
        case fail(Int)
        case job(String, Int)

        /// The number that it is noted by.
        public var number: Int {
            switch self {
            case .add(let number), .fail(let number), .job(_, let number): number
            }
        }
    }

    /// It sends to counters.
    public typealias Action = Counter.Action

    /// What an event that fails throws.
    public struct Failure: Error, Equatable {
        /// The number of the event.
        public let number: Int

        /// The failure of the event of a number.
        public init(number: Int) {
            self.number = number
        }
    }

    /// Where conversions wait, by the number of their event, and what is noted of them.
    public final class Site: Sendable {
        private let gates = Locked<[Int: Gate]>([:])
        /// The numbers of the conversions that have begun.
        public let started = Recorder<Int>()
        /// The numbers of the conversions that are over.
        public let ended = Recorder<Int>()
        /// The numbers of those that failed, once for each attempt.
        public let attempts = Recorder<Int>()
        /// Numbers whose conversion waits for its gate.
        let held: @Sendable (Int) -> Bool

        /// A site at which some conversions wait, or none.
        public init(held: @escaping @Sendable (Int) -> Bool = { _ in false }) {
            self.held = held
        }

        /// The gate of a number, the same at each call.
        public func gate(_ number: Int) -> Gate {
            gates.withLock { gates in
                let gate = gates[number] ?? Gate()
                gates[number] = gate
                return gate
            }
        }
    }

    /// Waits where the site says so, then sends or throws.
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

    /// Tells of a failure, but not of that of number 0.
    public static func action(for error: any Error, event: Event) -> Action? {
        event == .fail(0) ? nil : .add(-1)
    }
}

extension FluxTask.Outcome {
    /// For comparing in tests.
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
    /// For comparing in tests.
    public var name: String {
        switch self {
        case .started: "started"
        case .actionSent: "sent"
        case .retrying(let attempt, _): "retrying \(attempt)"
        case .ended(let outcome): outcome.name
        }
    }
}
