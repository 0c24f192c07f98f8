import Foundation
import ProgramTesting
import Testing

@testable import auction_house

/// The program, as a process: killed at random moments, closed in order, and started with mistakes.
///
/// There are 12 kills; `CRASHES=500 swift test --package-path Examples --filter AuctionHouseTests` makes more of them.
@Suite(.serialized) final class AuctionHouseTests {
    static let crashes = ProcessInfo.processInfo.environment["CRASHES"].flatMap { Int($0) } ?? 12

    let folder = FileManager.default.temporaryDirectory.appending(component: "AuctionHouse-\(UUID().uuidString)").path
    var receipts: [Receipt] {
        Receipt.all(in: FileManager.default.contents(atPath: folder + "/receipts") ?? Data()).compactMap(\.self)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func program(_ arguments: [String], output: FileHandle? = nil) throws -> Command {
        try Command(program: Command.built("auction-house"), arguments, output: output)
    }

    @Test(arguments: [1, 2] as [UInt64])
    func `A kill at any time loses no acknowledged bid and damages no room`(seed: UInt64) async throws {
        var random = SplitMix(seed: seed)
        var known = 0
        for crash in 1...(Self.crashes / 2) {
            let busy = ["--rooms", "12", "--open", "4", "--bids", "1000000", "--watchers", "20", "--latency", "1"]
            let running = try program(["run", folder] + busy)
            // Some kills come before the program has begun, most after this many bids.
            if !crash.isMultiple(of: 4) {
                let enough = known + Int.random(in: 1...60, using: &random)
                while receipts.count < enough && running.isRunning { try await Task.sleep(for: .milliseconds(1)) }
            }
            try await Task.sleep(for: .microseconds(Int.random(in: 0...5_000, using: &random)))
            running.send(SIGKILL)
            #expect(await running.finish().status == SIGKILL, "crash \(crash)")

            let rooms = try rooms()
            for receipt in receipts {
                #expect(rooms[receipt.room]?.has(receipt.bid) == true, "crash \(crash): lost \(receipt)")
            }
            for room in rooms.values {
                #expect(room.bids.map(\.amount) == Set(room.bids.map(\.amount)).sorted(), "crash \(crash): disorder")
            }
            known = receipts.count
        }
        #expect(known >= Self.crashes / 4, "most have come that far")
        let check = try await program(["check", folder]).finish()
        #expect(check.status == 0 && check.output == "\(known) bids were acknowledged, and none is lost\n")
    }

    @Test(arguments: [SIGTERM, SIGINT, SIGHUP])
    func `A signal closes the house, and its rooms have exactly the acknowledged bids`(signal: Int32) async throws {
        let running = try program(["run", folder, "--rooms", "20", "--bids", "1000000", "--watchers", "100"])
        while receipts.count < 20 && running.isRunning { try await Task.sleep(for: .milliseconds(1)) }
        running.send(signal)
        let (status, output, errors) = await running.finish()
        #expect(status == 0 && errors == "")
        #expect(output.contains("bids      \(receipts.count) accepted, ") && output.hasSuffix("\nclosed\n"))
        let bids = try rooms().flatMap { number, room in room.bids.map { Receipt(room: number, bid: $0) } }
        #expect(bids.count == Set(bids).count && Set(bids) == Set(receipts))
    }

    @Test func `The program ends when all bids are made, and continues with the same rooms the next time`() async throws
    {
        let few = ["run", folder, "--rooms", "5", "--bids", "50", "--watchers", "10", "--latency", "0"]
        let first = try await program(few).finish()
        #expect(first.status == 0 && first.errors == "")
        let taken = receipts.count
        #expect(taken > 0)
        #expect(try await program(few).finish().status == 0)
        #expect(receipts.count > taken)
        #expect(try rooms().values.reduce(0) { $0 + $1.bids.count } == receipts.count)
    }

    @Test func `A lost bid is reported`() async throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try "3 1 5\n".write(toFile: folder + "/receipts", atomically: true, encoding: .utf8)
        let (status, output, errors) = try await program(["check", folder]).finish()
        #expect(status == 1 && output == "")
        #expect(errors == "auction-house: 1 acknowledged bids are lost, such as Bid(bidder: 1, amount: 5) in room 3\n")
    }

    @Test(arguments: ["3", "3 1", "3 1 5"])
    func `A receipt that was cut short acknowledges nothing, and the next begins on its own line`(
        cut: String
    ) async throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try cut.write(toFile: folder + "/receipts", atomically: true, encoding: .utf8)
        let before = try await program(["check", folder]).finish()
        #expect(before.status == 0 && before.output == "0 bids were acknowledged, and none is lost\n", "\(before)")
        let few = ["run", folder, "--rooms", "3", "--bids", "9", "--watchers", "0", "--latency", "0"]
        #expect(try await program(few).finish().status == 0)
        let after = try await program(["check", folder]).finish()
        #expect(after.status == 0 && after.output.hasPrefix("\(receipts.count) bids were"), "\(after)")
        #expect(try rooms().values.reduce(0) { $0 + $1.bids.count } == receipts.count)
    }

    @Test(arguments: ["3 1", "3 1 5 5", "3 x 1 5", "3  1 5", "", "é"])
    func `A line that is not a receipt is reported`(line: String) async throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try "\(line)\n".write(toFile: folder + "/receipts", atomically: true, encoding: .utf8)
        let (status, output, errors) = try await program(["check", folder]).finish()
        #expect(status == 1 && output == "")
        #expect(
            errors == "auction-house: \(folder)/receipts:1: is not a receipt; no bid on the other lines is lost\n")
    }

    @Test func `A damaged room is reported until it is repaired; check does not move it, and run does not replace it`()
        async throws
    {
        let few = ["run", folder, "--rooms", "1", "--bids", "9", "--watchers", "0", "--latency", "0"]
        #expect(try await program(few).finish().status == 0)
        let room = URL(filePath: folder + "/room-0")
        let whole = try Data(contentsOf: room)
        var broken = whole
        broken[broken.count - 3] ^= 1
        try broken.write(to: room)
        let aside = room.path + ".unreadable"

        for _ in 1...2 {
            let check = try await program(["check", folder]).finish()
            #expect(check.status == 1 && check.output == "")
            #expect(check.errors == "auction-house: \(room.path): cannot be read: damaged\n")
        }
        #expect(try Data(contentsOf: room) == broken && !FileManager.default.fileExists(atPath: aside))

        let run = try await program(few).finish()
        #expect(run.status == 1 && run.errors.contains(aside), "\(run)")
        for arguments in [few, ["check", folder]] {
            let again = try await program(arguments).finish()
            let told = "room 0: its content is in room-0.unreadable: repair and move it back, or remove it to continue"
            #expect(again.status == 1 && again.errors == "auction-house: \(told)\n", "\(again)")
        }
        #expect(try Data(contentsOf: URL(filePath: aside)) == broken)

        try whole.write(to: room)
        try FileManager.default.removeItem(atPath: aside)
        #expect(try await program(["check", folder]).finish().status == 0)
    }

    @Test(arguments: [
        (["run", "/dev/null/house"], 1, "auction-house: /dev/null/house: Not a directory\n"),
        (["check", "/nowhere"], 1, "auction-house: /nowhere/receipts: No such file or directory\n"),
    ])
    func `A failure gives one line and status 1`(arguments: [String], status: Int32, errors: String) async throws {
        let result = try await program(arguments).finish()
        #expect(result.status == status && result.output == "" && result.errors == errors)
    }

    @Test func `A mistake in the options is a usage error, and the help names them`() async throws {
        let mistake = try await program(["run", folder, "--rooms=0"]).finish()
        #expect(mistake.status == 64 && mistake.errors.hasPrefix("Error: --rooms must be at least 1.\nUsage: "))
        let help = try await program(["run", "--help"]).finish()
        #expect(help.status == 0 && help.output.contains("--watchers"))
        #expect(try await program(["--help"]).finish().output.contains(" 64 "))
    }

    #if os(Linux)
        @Test func `Output that cannot be printed gives one line and status 1`() async throws {
            let result = try await program(
                ["run", folder, "--bids", "1", "--watchers", "0"], output: FileHandle(forWritingAtPath: "/dev/full")
            ).finish()
            #expect(result.status == 1)
            #expect(result.errors == "auction-house: standard output: No space left on device\n")
        }
    #endif

    /// Reads the files directly: a head of 40 bytes, and JSON.
    private func rooms() throws -> [Int: Room] {
        var rooms: [Int: Room] = [:]
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] where name.hasPrefix("room-") {
            #expect(!name.hasSuffix(".unreadable"), "\(name): a kill has damaged a file")
            guard let number = Int(name.dropFirst(5)) else { continue }
            let content = try Data(contentsOf: URL(filePath: "\(folder)/\(name)")).dropFirst(40)
            rooms[number] = try JSONDecoder().decode(Room.self, from: content)
        }
        return rooms
    }
}
