import Foundation
import Testing

@testable import auction_house

/// The program, as a process: killed at random moments, closed in order, and started with mistakes.
///
/// 12 kills; `CRASHES=500 swift test --package-path Examples --filter AuctionHouseTests` does it more often.
@Suite(.serialized) final class AuctionHouseTests {
    static let crashes = ProcessInfo.processInfo.environment["CRASHES"].flatMap { Int($0) } ?? 12

    let folder = FileManager.default.temporaryDirectory.appending(component: "AuctionHouse-\(UUID().uuidString)").path
    var receipts: [Receipt] {
        let lines = FileManager.default.contents(atPath: folder + "/receipts") ?? Data()
        return String(decoding: lines, as: UTF8.self).split(separator: "\n").compactMap { Receipt($0) }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    @Test(arguments: [1, 2] as [UInt64])
    func `Whenever it is killed, no acknowledged bid is lost and no room is damaged`(seed: UInt64) async throws {
        var random = SplitMix(seed: seed)
        var known = 0
        for crash in 1...(Self.crashes / 2) {
            let busy = ["--rooms", "12", "--open", "4", "--bids", "1000000", "--watchers", "20", "--latency", "1"]
            let program = try Program(["run", folder] + busy)
            // Some before it has begun, most after so many bids.
            if !crash.isMultiple(of: 4) {
                let enough = known + Int.random(in: 1...60, using: &random)
                while receipts.count < enough && program.isRunning { try await Task.sleep(for: .milliseconds(1)) }
            }
            try await Task.sleep(for: .microseconds(Int.random(in: 0...5_000, using: &random)))
            program.send(SIGKILL)
            #expect(await program.finish().status == SIGKILL, "crash \(crash)")

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
        let check = try await Program(["check", folder]).finish()
        #expect(check.status == 0 && check.output == "\(known) bids were acknowledged, and none is lost\n")
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func `A signal closes it in order: what is in the rooms is what was acknowledged`(signal: Int32) async throws {
        let program = try Program(["run", folder, "--rooms", "20", "--bids", "1000000", "--watchers", "100"])
        while receipts.count < 20 && program.isRunning { try await Task.sleep(for: .milliseconds(1)) }
        program.send(signal)
        let (status, output, errors) = await program.finish()
        #expect(status == 0 && errors == "")
        #expect(output.contains("bids      \(receipts.count) taken, ") && output.hasSuffix("\nclosed\n"))
        let bids = try rooms().flatMap { number, room in room.bids.map { Receipt(room: number, bid: $0) } }
        #expect(bids.count == Set(bids).count && Set(bids) == Set(receipts))
    }

    @Test func `It ends when all bids are made, and goes on with the rooms the next time`() async throws {
        let few = ["run", folder, "--rooms", "5", "--bids", "50", "--watchers", "10", "--latency", "0"]
        let first = try await Program(few).finish()
        #expect(first.status == 0 && first.errors == "")
        let taken = receipts.count
        #expect(taken > 0)
        #expect(try await Program(few).finish().status == 0)
        #expect(receipts.count > taken)
        #expect(try rooms().values.reduce(0) { $0 + $1.bids.count } == receipts.count)
    }

    @Test func `What is lost is told of`() async throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try "3 1 5\n".write(toFile: folder + "/receipts", atomically: true, encoding: .utf8)
        let (status, output, errors) = try await Program(["check", folder]).finish()
        #expect(status == 1 && output == "")
        #expect(errors == "auction-house: 1 acknowledged bids are lost, such as Bid(bidder: 1, amount: 5) in room 3\n")
    }

    @Test(arguments: [
        (["run", "/dev/null/house"], 1, "auction-house: /dev/null/house: Not a directory\n"),
        (["check", "/nowhere"], 1, "auction-house: /nowhere/receipts: cannot be read\n"),
    ])
    func `What fails is one line and status 1`(arguments: [String], status: Int32, errors: String) async throws {
        let result = try await Program(arguments).finish()
        #expect(result.status == status && result.output == "" && result.errors == errors)
    }

    @Test func `A mistake in the options is a usage error, and help names them`() async throws {
        let mistake = try await Program(["run", folder, "--rooms=0"]).finish()
        #expect(mistake.status == 64 && mistake.errors.hasPrefix("Error: --rooms must be at least 1.\nUsage: "))
        let help = try await Program(["run", "--help"]).finish()
        #expect(help.status == 0 && help.output.contains("--watchers"))
    }

    #if os(Linux)
        @Test func `What cannot be printed is one line and status 1`() async throws {
            let result = try await Program(
                ["run", folder, "--bids", "1", "--watchers", "0"], output: FileHandle(forWritingAtPath: "/dev/full")
            ).finish()
            #expect(result.status == 1)
            #expect(result.errors == "auction-house: standard output: No space left on device\n")
        }
    #endif

    /// Reads the files as anybody could: a head of 40 bytes, and JSON.
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

/// The program while it runs.
///
/// What it prints is short, and waits in the pipes.
final class Program: @unchecked Sendable {
    private let process = Process()
    private let (output, errors) = (Pipe(), Pipe())

    init(_ arguments: [String], output other: FileHandle? = nil) throws {
        process.executableURL = Bundle.main.bundleURL.appending(component: "auction-house")
        process.arguments = arguments
        process.standardOutput = other ?? output
        process.standardError = errors
        try process.run()
        // One that hangs is a test that fails: it ends by another signal than was expected.
        DispatchQueue.global().asyncAfter(deadline: .now() + 60) { [weak self] in self?.send(SIGKILL) }
    }

    deinit { send(SIGKILL) }

    var isRunning: Bool { process.isRunning }

    func send(_ signal: Int32) {
        if process.isRunning { kill(process.processIdentifier, signal) }
    }

    func finish() async -> (status: Int32, output: String, errors: String) {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { [self] in
                process.waitUntilExit()
                let texts = [output, errors].map { pipe in
                    try? pipe.fileHandleForWriting.close()
                    return String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                }
                continuation.resume(returning: (process.terminationStatus, texts[0], texts[1]))
            }
        }
    }
}

/// Random numbers that are the same in every run.
struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
