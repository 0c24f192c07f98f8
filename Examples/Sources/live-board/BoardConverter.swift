import FluxCore
import FluxEffects
import FluxPersistence
import Synchronization

extension BoardAction: FluxAction {}

extension BoardState: FluxState {
    mutating func handle(action: BoardAction) -> BoardState? { apply(action) ? self : nil }
}

/// A command of a client: the event.
struct Order: FluxEvent {
    let command: BoardCommand
    let client: String
    /// Where the converter says what came of it.
    let answer = Answer()

    /// The card whose words it is to change.
    var editedCard: String? { if case .editCard(let card, _, _, _) = command { card } else { nil } }

    final class Answer: Sendable {
        let receipt = Mutex<Receipt?>(nil)
        let isBusy = Mutex(false)
    }
}

/// Makes an action of a command that the board can take, and has it on disk before the command ends.
///
/// It does not suspend before the action is applied, and conversions of one board start one after the other: so nothing
/// changes between the look at the state and the action. Those that wait for the disk overlap, and share its writes.
enum BoardConverter: FluxAsyncActionConverter {
    struct Dependency: Sendable {
        let store: FluxStore<BoardState>
        let limits: BoardLimits
        let disk: Disk
    }

    static func convert(
        event order: Order, dependency: Dependency, send: @escaping @Sendable (BoardAction) -> Void
    ) async throws {
        // What cannot be saved would only grow in memory.
        if dependency.disk.isFailing { throw Unsaved() }
        let store = dependency.store
        let action = Result {
            try store.state.action(for: order.command, by: order.client, limits: dependency.limits)
        }
        if case .success(let action?) = action { send(action) }
        let revision = store.state.revision
        // Also where nothing has changed: what the answer was made from may not be on disk yet.
        if await store.handle.failure() != nil { throw Unsaved() }
        let receipt = Receipt(revision: revision, id: try action.get()?.added)
        order.answer.receipt.withLock { $0 = receipt }
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

/// What is known of the disk: whether the last write has failed, which is tried again.
final class Disk: Sendable {
    private let failing = Mutex(false)

    var isFailing: Bool {
        get { failing.withLock { $0 } }
        set { failing.withLock { $0 = newValue } }
    }
}

/// A change was not saved, or it is not known whether it was; the reason is logged.
struct Unsaved: Error {}
