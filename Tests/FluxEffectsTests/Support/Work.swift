import FluxCore

/// Does what its event says, asynchronously; notes what starts and ends.
enum WorkConverter: FluxAsyncActionConverter {
    enum Event: FluxEvent, Equatable {
        case add(Int)
        case fail(Int)
        case job(String, Int)

        var number: Int {
            switch self {
            case .add(let number), .fail(let number), .job(_, let number): number
            }
        }
    }

    typealias Action = Counter.Action

    struct Failure: Error, Equatable {
        let number: Int
    }

    /// Where conversions wait, by the number of their event, and what is noted of them.
    final class Site: Sendable {
        private let gates = Locked<[Int: Gate]>([:])
        let started = Recorder<Int>()
        let ended = Recorder<Int>()
        let attempts = Recorder<Int>()
        /// Numbers whose conversion waits for its gate.
        let held: @Sendable (Int) -> Bool

        init(held: @escaping @Sendable (Int) -> Bool = { _ in false }) {
            self.held = held
        }

        func gate(_ number: Int) -> Gate {
            gates.withLock { gates in
                let gate = gates[number] ?? Gate()
                gates[number] = gate
                return gate
            }
        }
    }

    static func convert(
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

    static func action(for error: any Error, event: Event) -> Action? {
        event == .fail(0) ? nil : .add(-1)
    }
}

extension FluxTask.Outcome {
    /// For comparing in tests.
    var name: String {
        switch self {
        case .completed: "completed"
        case .failed: "failed"
        case .cancelled: "cancelled"
        case .dropped: "dropped"
        }
    }
}

extension FluxTask.LifeEvent {
    var name: String {
        switch self {
        case .started: "started"
        case .actionSent: "sent"
        case .retrying(let attempt, _): "retrying \(attempt)"
        case .ended(let outcome): outcome.name
        }
    }
}
