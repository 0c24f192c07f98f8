import FluxCore
import FluxDiagnostics
import FluxEffects
import FluxObservation
import FluxPersistence
import FluxReplication
import Logging
import Metrics
import Synchronization

/// An open board: its store, the creator for its commands, and the feed for its watchers.
///
/// It is a member of the family of ``Boards``.
final class Desk: Sendable {
    let storage: Storage<BoardState>
    let feed: Feed
    private let creator: FluxActionCreator<BoardConverter>
    private let showing: Task<Void, Never>
    private let named: Named
    private let openBoards = Meter(label: "live_board.open_boards")
    private let logger: Logger
    /// Whether a failed close has been logged; closing is retried.
    private let isStuck = Atomic(false)

    /// Receives a title, the revision at which it was read, and whether another was reported since the opening.
    typealias Named = @Sendable (_ title: String, _ revision: Int, _ isAnother: Bool) -> Void

    /// Opens a board.
    ///
    /// - Parameters:
    ///   - storage: The storage of the board.
    ///   - limits: The limits of the board.
    ///   - house: The server's limit on concurrent commands, for all boards together.
    ///   - logger: The logger for failures.
    ///   - named: Called with the title, and with each new one.
    init(
        _ storage: Storage<BoardState>, limits: BoardLimits, house: FluxLimit, logger: Logger,
        named: @escaping Named
    ) {
        let store = storage.store
        Self.instrument(store, logger)
        creator = FluxActionCreator(
            dependency: BoardConverter.Dependency(storage: storage, limits: limits), store: store,
            rules: [.custom(OneEditPerCard()) { $0.editedCard }, .concurrency(house)],
            onFailure: { _, _ in })  // The outcome reports the error to the client.

        let feed = Feed(store.state)
        (self.storage, self.feed, self.logger, self.named) = (storage, feed, logger, named)
        showing = Task {
            switch storage {
            case .disk(let store, _): await Self.showSaved(store, feed, named)
            case .log(let replica, _): await Self.showApplied(replica, feed, logger, named)
            }
        }
        openBoards.increment()
    }

    /// Carries out a command, and returns once it is saved, so the caller may acknowledge it to the client.
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

    /// Returns the revision that a watcher claims to have; nil: the board never had it.
    ///
    /// Another server may have shown a revision that this one has yet to read.
    func known(_ known: KnownRevision?) async -> Int? {
        guard let known else { return nil }
        if known.revision > storage.store.state.revision { try? await storage.catchUp() }
        return storage.store.state.has(known) ? known.revision : nil
    }

    /// Waits until the commands have ended and, with a database, everything is saved; throws if something is not saved.
    func close() async throws {
        storage.leaveLog()
        await creator.flush()
        do {
            if case .disk = storage { _ = try await storage.kept() }
        } catch {
            if !isStuck.exchange(true, ordering: .relaxed) {
                logger.error("A board cannot be closed", metadata: ["error": "\(error)"])
            }
            throw error
        }
        if isStuck.load(ordering: .relaxed) { logger.notice("The board has been closed") }
        showing.cancel()
        // The task holds the store and thus the database, which must be free when the board is next opened.
        await showing.value
        // The last saved state may not have been shown, nor its title reported.
        if case .disk(let store, _) = storage { named(store.state.board.title, store.state.revision, false) }
        openBoards.decrement()
    }

    // MARK: - Showing

    private static func showSaved(_ store: FluxStore<BoardState>, _ feed: Feed, _ named: Named) async {
        // A state that arrives while another is being saved is skipped: the next one includes its changes.
        for await state in store.states {
            // A failed save is retried, and the flush waits for that.
            if await store.handle.failure() != nil {
                await store.flush()
                if await store.handle.failure() != nil { continue }
            }
            if Task.isCancelled { return }
            feed.show(state)
            named(state.board.title, state.revision, false)
        }
    }

    private static func showApplied(
        _ replica: FluxReplica<BoardState>, _ feed: Feed, _ logger: Logger, _ named: Named
    ) async {
        let replacements = Replacements()
        replica.store.handle.withAccess { $0.observe(replacements) }
        // The view only says when to look. The state is read atomically with the flag that tells whether it was
        // replaced.
        let changes = FluxView(replica.store, replica.status, by: { _, _ in false }) { _, _ in }
        var title: String?
        for await _ in changes.states {
            if Task.isCancelled { return }
            let condition = replica.status.state.condition
            feed.show(isWritable: condition.isWritable)
            if case .diverged(let divergence) = condition {
                logger.critical("A board differs from another server's copy", metadata: ["why": "\(divergence)"])
                continue
            }
            let (state, isAnew) = replica.store.handle.withAccess { ($0.state, replacements.take()) }
            feed.show(state, anew: isAnew)
            if title != state.board.title { named(state.board.title, state.revision, title != nil) }
            title = state.board.title
        }
    }

    /// Adds metrics and logging to a store; each is a file to copy.
    private static func instrument(_ store: FluxStore<BoardState>, _ logger: Logger) {
        store.instrument(FluxMetrics(label: "live_board.store"))
        // Logging describes each action, which is expensive if the text is not written.
        if logger.logLevel <= .debug { store.instrument(FluxLogging(logger)) }
    }
}

/// Records that a replica has replaced its state with a snapshot, so the states shown before may have been wrong.
///
/// A divergence may be over before it is seen in the status.
private final class Replacements: FluxStoreObserver {
    private let isAnew = Mutex(false)

    func applied(
        _ change: FluxChange<BoardState>, _ state: BoardState, revision: UInt64?
    ) -> (any FluxSettling)? {
        if case .replaced = change { isAnew.withLock { $0 = true } }
        return nil
    }

    /// Whether it has since the last call; called with the store's lock held, so it belongs to the state read there.
    func take() -> Bool {
        isAnew.withLock { isAnew in
            defer { isAnew = false }
            return isAnew
        }
    }
}

extension FluxReplicaStatus.Condition {
    /// Whether commands are accepted, as far as is known.
    var isWritable: Bool {
        switch self {
        case .following, .loading: true
        case .unavailable, .diverged, .stopped, .closed: false
        }
    }
}
