import FluxCore

/// An offer: an event, whose bidder must be vouched for before it changes a room.
struct Bid: FluxEvent, Codable, Hashable {
    var bidder: Int
    var amount: Int
}

/// The state of one room: its accepted bids, each higher than the one before.
struct Room: FluxState, Codable, Equatable {
    enum Action: FluxAction { case take(Bid) }

    var bids: [Bid] = []

    var highest: Int { bids.last?.amount ?? 0 }

    func has(_ bid: Bid) -> Bool { bids.last { $0.amount <= bid.amount } == bid }

    /// Checks the amount again, because others may have bid while the repository was asked.
    mutating func handle(action: Action) -> Room? {
        switch action {
        case .take(let bid):
            guard bid.amount > highest else { return nil }
            bids.append(bid)
            return self
        }
    }
}

/// Knows the bidders: a database or another service, far away and slow.
protocol Repository: Sendable {
    func vouches(for bidder: Int) async throws -> Bool
}

/// Turns a bid into an action, once the repository has vouched for the bidder.
enum BidConverter: FluxAsyncActionConverter {
    typealias Event = Bid
    typealias Action = Room.Action

    static func convert(
        event bid: Bid, dependency: any Repository, send: @escaping @Sendable (Action) -> Void
    ) async throws {
        guard try await dependency.vouches(for: bid.bidder) else { throw Refusal.unknown(bidder: bid.bidder) }
        send(.take(bid))
    }
}

/// Why a bid was not accepted.
enum Refusal: Error, Hashable {
    /// Another bidder has bid as much or more.
    case outbid
    /// A bid of the same bidder is still being checked.
    case tooFast
    /// The repository does not vouch for the bidder.
    case unknown(bidder: Int)
}
