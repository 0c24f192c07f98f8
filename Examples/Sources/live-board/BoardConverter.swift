import FluxCore
import FluxEffects
import FluxPersistence
import FluxReplication
import Synchronization

extension BoardAction: FluxAction {}

extension BoardState: FluxState {
    mutating func handle(action: BoardAction) -> BoardState? { apply(action) ? self : nil }
}

/// A command of a client: the event.
struct Order: FluxEvent {
    let command: BoardCommand
    let client: String
    let arrival = ContinuousClock.now
    /// What tells the change that comes of it from any other.
    let id = String(UInt64.random(in: 0...(.max)), radix: 36)
    /// Where the converter says what came of it.
    let answer = Answer()

    /// The card whose words it is to change.
    var editedCard: String? { if case .editCard(let card, _, _, _) = command { card } else { nil } }

    final class Answer: Sendable {
        let receipt = Mutex<Receipt?>(nil)
        let isBusy = Mutex(false)
    }
}

/// Makes an action of a command that the board can take, and has it kept before the command ends.
enum BoardConverter: FluxAsyncActionConverter {
    struct Dependency: Sendable {
        let storage: Storage<BoardState>
        let limits: BoardLimits
    }

    static func convert(
        event order: Order, dependency: Dependency, send: @escaping @Sendable (BoardAction) -> Void
    ) async throws {
        switch dependency.storage {
        case .disk(let store, let file):
            try file.requireSaving()
            // Nothing here suspends before the action is applied, and conversions of one board start one after the other: so
            // nothing changes between the look at the state and the action. Those that wait for the disk overlap, and
            // share its writes.
            let (state, limits) = (store.state, dependency.limits)
            let action = Result {
                try state.action(for: order.command, by: order.client, limits: limits)?.ordered(order.id)
            }
            var outcome = Unsaved.Outcome.refused
            if case .success(let action?) = action {
                send(action)
                outcome = .pending
            }
            let revision = store.state.revision
            // Also where nothing has changed: what the answer was made from may not be on disk yet.
            if let error = await store.handle.failure() { throw file.problem(outcome, error) }
            let receipt = Receipt(revision: revision, id: try action.get()?.added)
            order.answer.receipt.withLock { $0 = receipt }
        case .log(let replica, let patience):
            let shared = SharedOrder(
                order: order, limits: dependency.limits, replica: replica, deadline: order.arrival + patience)
            let receipt = try await shared.carryOut()
            order.answer.receipt.withLock { $0 = receipt }
        }
    }
}

/// A command on a log that several servers share: each decides on it at its place there, and so all alike.
private struct SharedOrder {
    let order: Order
    let limits: BoardLimits
    let replica: FluxReplica<BoardState>
    let deadline: ContinuousClock.Instant

    func carryOut() async throws -> Receipt {
        let command = try order.command.checked()
        // What can be done goes to the log at once. What cannot is not put there; but it may only look so from here, where not
        // everything has come that others were told is done.
        if (try? decide(on: replica.store.state)) == nil {
            try await replica.upToDate(within: timeLeft())
            let state = replica.store.state
            if try decide(on: state) == nil { return Receipt(revision: state.revision) }
        }
        let revision = replica.store.state.revision
        try await replica.dispatch(
            action: .decide(command, by: order.client, limits: limits, id: order.id), within: timeLeft())

        let state = replica.store.state
        guard let changes = state.changes(after: revision) else {
            throw Problem.unconfirmed("So much has changed since that what became of it is not known any more.")
        }
        if let made = changes.last(where: { $0.order == order.id }) {
            return Receipt(revision: made.revision, id: made.change.added)
        }
        // Somebody else was first, so it has changed nothing.
        if try decide(on: state) == nil { return Receipt(revision: state.revision) }
        throw Problem.overtaken
    }

    private func decide(on state: BoardState) throws -> BoardAction? {
        try state.action(for: order.command, by: order.client, limits: limits)
    }

    private func timeLeft() throws -> Duration {
        let left = deadline - .now
        if left <= .zero { throw Problem.unavailable("It did not answer in time.") }
        return left
    }
}

/// One edit at a time for each card; the order is told, since a full house drops events as well.
struct OneEditPerCard: FluxRuling {
    func decide(on order: Order, inFlight: FluxInFlightEvents<Order>) -> FluxDecision {
        if inFlight.isEmpty { return .start }
        order.answer.isBusy.withLock { $0 = true }
        return .drop
    }
}
