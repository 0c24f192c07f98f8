import FluxCore
import TestSupport

/// Starts events at once unless its closure keeps them, and records its notifications.
final class Scheduling: FluxScheduler {
    enum Told: Equatable {
        case fired(String)
        case retries(String, Int)
        case ended(String, String)
    }

    let notes = Recorder<Told>()
    private let tickets = Locked<[String: FluxTicket]>([:])
    private let starts: @Sendable (FluxTicket) -> Void
    private let again: @Sendable (FluxTicket, Int) -> Bool

    init(
        starting starts: @escaping @Sendable (FluxTicket) -> Void = { $0.start() },
        retrying again: @escaping @Sendable (FluxTicket, Int) -> Bool = { _, _ in false }
    ) {
        (self.starts, self.again) = (starts, again)
    }

    func ticket(_ event: String) -> FluxTicket? { tickets.withLock { $0[event] } }

    var all: [FluxTicket] { tickets.withLock { Array($0.values) } }

    private func name(_ ticket: FluxTicket) -> String { "\(ticket.event)" }

    func fired(_ ticket: FluxTicket) {
        notes.record(.fired(name(ticket)))
        tickets.withLock { $0[name(ticket)] = ticket }
        starts(ticket)
    }

    func retries(_ ticket: FluxTicket, attempt: Int, _ error: any Error) -> Bool {
        notes.record(.retries(name(ticket), attempt))
        return again(ticket, attempt)
    }

    func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) {
        notes.record(.ended(name(ticket), outcome.name))
        let gone = tickets.withLock { $0.removeValue(forKey: name(ticket)) }
        withExtendedLifetime(gone) {}
    }
}
