import FluxCore
import FluxEffects
import FluxPersistence
import FluxReplication
import Synchronization

extension BoardAction: FluxAction {}

extension BoardState: FluxState {
    mutating func handle(action: BoardAction) -> BoardState? { apply(action) ? self : nil }
}

/// The event: a command of a client.
struct Order: FluxEvent {
    let command: BoardCommand
    let client: String
    let arrival = ContinuousClock.now
    /// The mark that distinguishes the resulting change from any other.
    let id = String(UInt64.random(in: 0...(.max)), radix: 36)
    /// The result, set by the converter, or by the rule that drops the order.
    let answer = Answer()

    /// The card that the command edits.
    var editedCard: String? { if case .editCard(let card, _, _, _) = command { card } else { nil } }

    final class Answer: Sendable {
        let receipt = Mutex<Receipt?>(nil)
        let isBusy = Mutex(false)
    }
}

/// Turns a command that the board can accept into an action, and saves it before the event completes.
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
            // Nothing suspends here before the action is applied, and conversions of one board start one after the
            // other, so the state cannot change between the check and the action. Conversions that wait for the disk
            // overlap and share its writes.
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
            // Waits even if nothing has changed: the state behind the response may not be on disk yet.
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

/// A command on a shared log: each server decides on it at its position there, so all decide the same.
private struct SharedOrder {
    let order: Order
    let limits: BoardLimits
    let replica: FluxReplica<BoardState>
    let deadline: ContinuousClock.Instant

    func carryOut() async throws -> Receipt {
        let command = try order.command.checked()
        // An acceptable command goes to the log at once, an unacceptable one does not. But it may only look
        // unacceptable here, because changes that other servers have acknowledged have not arrived yet.
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
            throw Problem.unconfirmed("Too many changes have followed to tell whether the command was applied.")
        }
        if let made = changes.last(where: { $0.order == order.id }) {
            return Receipt(revision: made.revision, id: made.change.added)
        }
        // Another command came first, so this one has changed nothing.
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

/// Allows one edit at a time per card, and marks an order that it drops: the server's limit drops events too.
struct OneEditPerCard: FluxRuling {
    func decide(on order: Order, inFlight: FluxInFlightEvents<Order>) -> FluxDecision {
        if inFlight.isEmpty { return .start }
        order.answer.isBusy.withLock { $0 = true }
        return .drop
    }
}
