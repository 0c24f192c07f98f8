import ArgumentParser
import FluxObservation
import FluxPersistence
import Foundation
import Terminal

@main
struct AuctionHouseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "auction-house",
        abstract: "An auction house with many rooms, and simulated bidders and watchers.",
        discussion: """
            Run it, kill it at any moment, and run it again: no acknowledged bid is lost, and check proves it. SIGINT, \
            SIGTERM and SIGHUP shut it down cleanly. The exit status is 0; 1 after an error, with a line on standard \
            error; or 64 for invalid arguments.
            """,
        subcommands: [Run.self, Check.self])
}

/// The folder of the rooms, and the file with what was acknowledged.
struct Place: ParsableArguments {
    @Argument(help: "The folder of the rooms; run creates it if it is missing.") var folder: String

    var receipts: String { "\(folder)/receipts" }
}

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract:
            "Opens the house for a while. Acknowledged bids go to the file receipts, as room, bidder and amount.")

    @OptionGroup var place: Place
    @Option(help: "How many rooms there are.") var rooms = 1_000
    @Option(help: "How many rooms stay open at once, unless more are in use.") var open = 200
    @Option(help: "How many bids are made in total.") var bids = 10_000
    @Option(help: "How many bidders make the bids, all at the same time.") var bidders = 100
    @Option(help: "How many watchers there are; every fourth is slow.") var watchers = 1_000
    @Option(help: "How many bids the repository checks at once.") var questions = 40
    @Option(help: "How long each check takes, in milliseconds.") var latency = 5

    func validate() throws {
        for (name, value, least) in [
            ("rooms", rooms, 1), ("open", open, 0), ("bids", bids, 0), ("bidders", bidders, 1),
            ("watchers", watchers, 0), ("questions", questions, 1), ("latency", latency, 0),
        ] where value < least {
            throw ValidationError("--\(name) must be at least \(least).")
        }
    }

    func run() async throws {
        try await reporting {
            if mkdir(place.folder, 0o755) != 0 && errno != EEXIST { throw SystemFailure(place.folder) }
            let house = House(
                folder: place.folder, repository: SlowRepository(latency: .milliseconds(latency)),
                questions: questions, open: open, idle: .seconds(1))
            let town = Town(house: house, rooms: rooms, receipts: try Output(appendingTo: place.receipts))

            let watching = Task {
                try await withThrowingDiscardingTaskGroup { group in
                    for watcher in 0..<watchers { group.addTask { try await town.watch(isSlow: watcher % 4 == 3) } }
                }
            }
            // Ends when all bids are made, at a signal, or if the output fails, whichever comes first.
            let (end, ending) = AsyncStream.makeStream(of: Void.self)
            let interrupt = Interrupt { ending.finish() }
            let showing = Task {
                defer { ending.finish() }
                for await board in house.board.states {
                    let text = "\(board.rooms) rooms with \(board.bids) bids, the highest \(board.highest)"
                    try Output.standard.write("open      \(text)\n")
                    // Changes during this pause are skipped.
                    try? await Task.sleep(for: .seconds(1))
                }
            }
            let bidding = Task {
                defer { ending.finish() }
                try await withThrowingDiscardingTaskGroup { group in
                    for bidder in 0..<bidders {
                        let share = bids / bidders + (bidder < bids % bidders ? 1 : 0)
                        group.addTask { try await town.bid(share, as: bidder) }
                    }
                }
            }
            for await _ in end {}

            showing.cancel()
            // In this order: the watchers leave, the rooms refuse further bids and close, and the last bidders notice.
            watching.cancel()
            let watched = await watching.result
            try await house.close()
            interrupt.stop()
            try await bidding.value
            try await showing.value
            try watched.get()
            let tally = town.tally
            try Output.standard.write(
                """
                bids      \(tally.taken) accepted, \(tally.outbid) outbid, \(tally.refused) refused
                watchers  \(tally.shown) states shown, \(tally.skipped) skipped
                closed

                """)
        }
    }
}

struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Opens the rooms again and looks for every acknowledged bid.")

    @OptionGroup var place: Place

    func run() async throws {
        try await reporting {
            if access(place.receipts, R_OK) != 0 { throw SystemFailure(place.receipts) }
            guard let file = FileManager.default.contents(atPath: place.receipts) else {
                throw Failure("\(place.receipts): cannot be read")
            }
            let lines = Receipt.all(in: file)
            let receipts = lines.compactMap(\.self)
            let lost = try await lost(of: receipts)
            if let first = lost.first {
                throw Failure("\(lost.count) acknowledged bids are lost, such as \(first.bid) in room \(first.room)")
            }
            if let wrong = lines.firstIndex(of: nil) {
                throw Failure("\(place.receipts):\(wrong + 1): is not a receipt; no bid on the other lines is lost")
            }
            try Output.standard.write("\(receipts.count) bids were acknowledged, and none is lost\n")
        }
    }

    /// Checks a copy of the rooms, because opening renames a file that cannot be read, and nothing may be moved here.
    private func lost(of receipts: [Receipt]) async throws -> [Receipt] {
        let files = FileManager.default
        let copy = files.temporaryDirectory.appending(component: "auction-house-\(UUID())").path
        if mkdir(copy, 0o700) != 0 { throw SystemFailure(copy) }
        defer { try? files.removeItem(atPath: copy) }
        for room in Set(receipts.map(\.room)) {
            for name in ["room-\(room)", "room-\(room).unreadable"]
            where files.fileExists(atPath: "\(place.folder)/\(name)") {
                try files.copyItem(atPath: "\(place.folder)/\(name)", toPath: "\(copy)/\(name)")
            }
        }
        let house = House(folder: copy, repository: SlowRepository(latency: .zero))
        do {
            let lost = try await house.lost(of: receipts)
            try await house.close()
            return lost
        } catch let error as FluxFileError {
            throw Failure("\(error.path.replacing(copy, with: place.folder)): cannot be read: \(error.reason)")
        }
    }
}
