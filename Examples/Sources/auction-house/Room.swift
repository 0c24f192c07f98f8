import FluxCore

/// What somebody offers: an event, which has to be vouched for before it changes a room.
struct Bid: FluxEvent, Codable, Hashable {
    var bidder: Int
    var amount: Int
}

/// The state of one room: the bids that it has taken, each higher than the one before.
struct Room: FluxState, Codable, Equatable {
    enum Action: FluxAction { case take(Bid) }

    var bids: [Bid] = []

    var highest: Int { bids.last?.amount ?? 0 }

    func has(_ bid: Bid) -> Bool { bids.last { $0.amount <= bid.amount } == bid }

    /// Looks at the amount once more: others have bid while this one was vouched for.
    mutating func handle(action: Action) -> Room? {
        switch action {
        case .take(let bid):
            guard bid.amount > highest else { return nil }
            bids.append(bid)
            return self
        }
    }
}

/// Who knows the bidders: a database or another service, far away and slow.
protocol Repository: Sendable {
    func vouches(for bidder: Int) async throws -> Bool
}

/// Makes an action of a bid, once the repository has vouched for it.
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

/// Why a bid was not taken.
enum Refusal: Error, Hashable {
    /// Another has bid as much or more.
    case outbid
    /// One bid of the same bidder is still looked at.
    case tooFast
    /// The repository does not vouch for the bidder.
    case unknown(bidder: Int)
}
