import FluxCore
import FluxDiagnostics
import FluxEffects
import FluxObservation
import FluxPersistence
import Logging
import Metrics
import SQLiteLog

/// A board that is open: its store, the way for commands to come in, and the feed of those who watch.
///
/// The member of the family of ``Boards``.
final class Desk: Sendable {
    let store: FluxStore<BoardState>
    let feed: Feed
    private let creator: FluxActionCreator<BoardConverter>
    private let disk = Disk()
    private let showing: Task<Void, Never>
    private let openBoards = Meter(label: "live_board.open_boards")

    /// Opens a board.
    ///
    /// - Parameters:
    ///   - path: Its database; made if there is none.
    ///   - founding: The board to begin with, where there is none.
    ///   - limits: How much there may be on it.
    ///   - house: How many commands are under way at once, on all boards together.
    ///   - logger: Where to tell what goes wrong.
    ///   - named: Told of the title, and of each new one.
    /// - Throws: What reading the database throws.
    init(
        path: String, founding: Board, limits: BoardLimits, house: FluxLimit, logger: Logger,
        named: @escaping @Sendable (String) -> Void
    ) async throws {
        // On no dispatcher: a command is for this board alone.
        store = try await FluxStore.restored(
            from: SQLiteLog<BoardState>(path: path, coding: .json()), initialState: BoardState(), dispatcher: nil,
            compactEvery: 1_000
        ) { [disk] failure in
            disk.isFailing = true
            logger.error("A board cannot be saved", metadata: ["path": "\(path)", "error": "\(failure)"])
        }
        if store.revision == 0 {
            store.dispatch(action: .found(founding))
            if await store.handle.failure() != nil { throw Unsaved() }
        }
        Self.instrument(store, logger)
        creator = FluxActionCreator(
            dependency: BoardConverter.Dependency(store: store, limits: limits, disk: disk), store: store,
            rules: [.custom(OneEditPerCard()) { $0.editedCard }, .concurrency(house)],
            onFailure: { _, _ in })  // The client is told, by the outcome.

        let feed = Feed(store.state)
        self.feed = feed
        showing = Task { [store, disk] in
            // A state that comes while another is on its way to the disk is skipped: the next has its changes too.
            for await state in store.states {
                await store.flush()
                if Task.isCancelled { return }
                if await store.handle.failure() != nil { continue }
                disk.isFailing = false
                feed.show(state)
                named(state.board.title)
            }
        }
        openBoards.increment()
    }

    /// Carries out a command, and returns once it is on disk: who hears of that may tell the client.
    func perform(_ command: BoardCommand, by client: String) async throws -> Receipt {
        let order = Order(command: command, client: client)
        switch await creator.fire(order).outcome {
        case .completed: break
        case .failed(let error): throw error
        case .dropped: throw order.answer.isBusy.withLock { $0 } ? Problem.busy : Problem.overloaded
        case .cancelled: throw Problem.closing
        }
        guard let receipt = order.answer.receipt.withLock({ $0 }) else { throw Problem.closing }
        return receipt
    }

    /// The state as it is now, once it is on disk.
    func saved() async throws -> BoardState {
        let state = store.state
        if await store.handle.failure() != nil { throw Unsaved() }
        return state
    }

    /// Ends what is under way, the commands first and then the log; throws where something is not saved.
    func close() async throws {
        await creator.flush()
        _ = try await saved()
        showing.cancel()
        // It holds the store, and so the database, which whoever opens the board next needs.
        await showing.value
        openBoards.decrement()
    }

    /// Lets metrics and logs look at a store; each is a file to copy.
    private static func instrument(_ store: FluxStore<BoardState>, _ logger: Logger) {
        store.instrument(FluxMetrics(label: "live_board.store"))
        // It describes each action, which is dear where nobody reads it.
        if logger.logLevel <= .debug { store.instrument(FluxLogging(logger)) }
    }
}
