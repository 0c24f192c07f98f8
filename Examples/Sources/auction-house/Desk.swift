import FluxCore
import FluxEffects
import FluxPersistence
import Foundation

/// An open room: its state, kept in a file, and the way in for bids.
///
/// Desks are the members of the family of a ``House``.
final class Desk: Sendable {
    let store: FluxStore<Room>
    private let creator: FluxActionCreator<BidConverter>

    /// Opens a room; all desks share `limit`, the number of bids that the repository is asked about at once.
    init(path: String, repository: any Repository, limit: FluxLimit) async throws {
        let file = FluxFile<Room>(
            path: path,
            encode: { Array(try JSONEncoder().encode($0)) },
            decode: { try JSONDecoder().decode(Room.self, from: Data($0)) })
        // On no dispatcher, because a bid is for this room alone.
        store = try await FluxStore.restored(from: file, initialState: Room(), dispatcher: nil)
        creator = FluxActionCreator(
            dependency: repository, store: store,
            rules: [.unique(cancelling: .later, for: { $0.bidder }), .concurrency(limit)],
            onFailure: { _, _ in })  // The outcome tells the bidder.
    }

    /// Accepts a bid, and returns once it is on disk; only then may the bidder be notified.
    func take(_ bid: Bid, within patience: Duration = .seconds(10)) async throws {
        switch await creator.fire(bid).outcome {
        case .completed: break
        case .failed(let error): throw error
        case .dropped: throw Refusal.tooFast
        case .cancelled: throw CancellationError()
        }
        guard store.state.has(bid) else { throw Refusal.outbid }
        try await save(within: patience)
    }

    /// Finishes the bids in progress, then the file: a bidder may have left while the bid was being checked.
    func close() async throws {
        await creator.flush()
        try await save(within: .seconds(10))
    }

    private func save(within patience: Duration) async throws {
        let end = ContinuousClock.now + patience
        // It also returns false if only a later change has just failed to be saved.
        while await !store.flush(within: max(.zero, end - .now)) {
            if case .failed(let error) = await store.ready { throw error }
            try Task.checkCancellation()
            if .now < end { continue }
            // Cancelled, so that it reports what is known now, without waiting.
            let failure = Task { [store] in await store.handle.failure() }
            failure.cancel()
            guard let error = await failure.value else { return }
            let cause = error is CancellationError ? "saving takes longer than \(patience)" : "\(error)"
            throw Failure("the room is not saved yet: \(cause); saving is retried")
        }
    }
}
