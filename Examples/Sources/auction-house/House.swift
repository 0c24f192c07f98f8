import FluxCore
import FluxEffects
import FluxObservation
import FluxRouting
import Foundation

/// All rooms of a folder; each is opened on demand and evicted when it is no longer needed.
final class House: Sendable {
    let desks: FluxFamily<Int, Desk>
    /// A summary of the open rooms, as they come and go.
    let board: FluxView<Board>

    /// Creates a house without opening a room.
    ///
    /// - Parameters:
    ///   - folder: The folder of the rooms; it must exist.
    ///   - repository: Vouches for the bidders.
    ///   - questions: How many bids the repository is asked about at once, by all rooms together.
    ///   - open: How many rooms are open at most, unless more are in use.
    ///   - idle: How long an unused room stays open.
    init(
        folder: String, repository: any Repository, questions: Int = 40, open: Int = 1_000,
        idle: Duration = .seconds(60)
    ) {
        let limit = FluxLimit(questions)
        desks = FluxFamily(idle: idle, limit: open) { room in
            let name = "room-\(room)"
            // Refused as long as that file exists: a room without bids would look as if there had never been any.
            if FileManager.default.fileExists(atPath: "\(folder)/\(name).unreadable") {
                let what = "its content is in \(name).unreadable"
                throw Failure("room \(room): \(what): repair and move it back, or remove it to continue")
            }
            return try await Desk(path: "\(folder)/\(name)", repository: repository, limit: limit)
        } close: { desk in
            try await desk.close()
        }
        board = FluxView(desks, \.store) { rooms in
            Board(
                rooms: rooms.count, bids: rooms.values.reduce(0) { $0 + $1.bids.count },
                highest: rooms.values.map(\.highest).max() ?? 0)
        }
    }

    /// Accepts no more bids, waits for those in progress, and saves and closes every room.
    ///
    /// Watchers must leave first: a room is not closed while it is in use.
    func close(within duration: Duration = .seconds(10)) async throws {
        let report = await desks.shutdown(within: duration)
        if let (room, error) = report.failed.first { throw Failure("room \(room) was not closed: \(error)") }
        if let room = report.late.first {
            throw Failure("room \(room) was not closed in time: it is in use, or cannot be saved")
        }
    }

    /// Returns the receipts that the rooms do not know; each is an acknowledged bid that was lost.
    func lost(of receipts: [Receipt]) async throws -> [Receipt] {
        var lost: [Receipt] = []
        for (number, receipts) in Dictionary(grouping: receipts, by: \.room) {
            let room = try await desks.with(number) { $0.store.state }
            lost += receipts.filter { !room.has($0.bid) }
        }
        return lost
    }
}

/// The summary that a ``House`` shows of its open rooms.
struct Board: Equatable, Sendable {
    var rooms, bids, highest: Int
}

/// A bidder's proof that a bid was acknowledged: a line of a file.
struct Receipt: Hashable, CustomStringConvertible {
    var room: Int
    var bid: Bid

    var description: String { "\(room) \(bid.bidder) \(bid.amount)" }
}

extension Receipt {
    /// Reads a line of the file; nil if it is not a receipt.
    init?(_ line: some StringProtocol) {
        let numbers = line.split(separator: " ").compactMap { Int($0) }
        if numbers.count != 3 { return nil }
        self.init(room: numbers[0], bid: Bid(bidder: numbers[1], amount: numbers[2]))
        if description != line { return nil }
    }

    /// Reads the file; a line that is not a receipt becomes nil.
    ///
    /// A last line without its end was cut short, and acknowledges nothing.
    static func all(in file: Data) -> [Receipt?] {
        String(decoding: file, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false).dropLast()
            .map { Receipt($0) }
    }
}
