import FluxObservation
import FluxRouting
import Synchronization
import Terminal

/// The bidders and watchers of a house, acting at random as people do.
final class Town: Sendable {
    struct Tally: Sendable { var (taken, outbid, refused, shown, skipped) = (0, 0, 0, 0, 0) }

    private let house: House
    private let rooms: Int
    private let receipts: Mutex<Result<Output, any Error>>
    private let counted = Mutex(Tally())

    init(house: House, rooms: Int, receipts: Output) {
        (self.house, self.rooms) = (house, rooms)
        self.receipts = Mutex(.success(receipts))
    }

    var tally: Tally { counted.withLock { $0 } }

    /// Makes bids in one room after another, until all are made or the house is closed.
    func bid(_ bids: Int, as bidder: Int) async throws {
        for _ in 0..<bids {
            let room = popular(of: rooms)
            do {
                try await house.desks.with(room) { desk in
                    let bid = Bid(bidder: bidder, amount: desk.store.state.highest + .random(in: 1...9))
                    try await desk.take(bid)
                    try acknowledge(Receipt(room: room, bid: bid))
                }
                counted.withLock { $0.taken += 1 }
            } catch Refusal.outbid {
                counted.withLock { $0.outbid += 1 }
            } catch is Refusal {
                counted.withLock { $0.refused += 1 }
            } catch is FluxFamilyError {
                return
            }
        }
    }

    /// Writes a receipt; after a failed write no other is written, since it would continue in the middle of that line.
    func acknowledge(_ receipt: Receipt) throws {
        try receipts.withLock { receipts in
            receipts = Result { [receipts] in
                let file = try receipts.get()
                try file.write("\(receipt)\n")
                return file
            }
            _ = try receipts.get()
        }
    }

    /// Watches one popular room after another, until the task is cancelled.
    func watch(isSlow: Bool) async throws {
        while let lease = try await lease(of: popular(of: max(1, rooms / 10))) {
            defer { lease.release() }
            var (last, stay) = (lease.member.store.state.bids.count, 10)
            for await room in lease.member.store.states {
                let skipped = max(0, room.bids.count - last - 1)
                counted.withLock { ($0.shown, $0.skipped) = ($0.shown + 1, $0.skipped + skipped) }
                (last, stay) = (room.bids.count, stay - 1)
                if stay == 0 { break }
                // A slow watcher delays no other one: the next state it receives is the newest by then.
                if isSlow { try? await Task.sleep(for: .milliseconds(100)) }
            }
        }
    }

    /// Keeps a room open; returns nil if the task was cancelled.
    private func lease(of room: Int) async throws -> FluxLease<Desk>? {
        do { return try await house.desks.lease(room) } catch is CancellationError { return nil }
    }

    /// Returns a random room: the lower its number, the more often.
    private func popular(of rooms: Int) -> Int { .random(in: 0...Int.random(in: 0..<rooms)) }
}

/// Answers after a delay, and vouches for nine out of ten bidders.
struct SlowRepository: Repository {
    let latency: Duration

    func vouches(for bidder: Int) async throws -> Bool {
        try await Task.sleep(for: latency)
        return bidder % 10 != 9
    }
}
