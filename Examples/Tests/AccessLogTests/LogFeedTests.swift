import FluxCore
import Foundation
import ProgramTesting
import Synchronization
import Testing

@testable import AccessLog

@Suite("LogFeed and AccessSummary")
struct LogFeedTests {
    private let store = FluxStore(initialState: AccessSummary(), dispatcher: nil)
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    private func read(_ paths: [String]) async throws -> AccessSummary {
        let creator = FluxActionCreator<AccessLogConverter>(store: store)
        let failure = await LogFeed(creator: creator, store: store).read(try paths.map { try LogFile(path: $0) })
        #expect(failure == nil)
        return store.state
    }

    /// Recorded lines, each with some bytes changed, removed or doubled.
    private func mutatedLines(seed: UInt64) throws -> [UInt8] {
        var random = SplitMix(seed: seed)
        var result: [UInt8] = []
        for line in try Data(contentsOf: URL(filePath: Fixture.nginxCombined.path)).split(separator: UInt8(ascii: "\n"))
        {
            var line = Array(line.prefix(400))
            for _ in 0..<Int.random(in: 0...3, using: &random) where !line.isEmpty {
                let index = Int.random(in: line.indices, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: line[index] = UInt8.random(in: 0...255, using: &random)
                case 1: line.remove(at: index)
                case 2: line.insert(#" "\[]0"#.utf8.randomElement(using: &random) ?? 0, at: index)
                default: line.removeSubrange(index...)
                }
            }
            result += line + (Int.random(in: 0..<20, using: &random) == 0 ? [13, 10] : [10])
        }
        return result
    }

    @Test("Totals add up to the lines read, whatever they contain", arguments: UInt64(1)...20)
    func totalsAddUp(seed: UInt64) async throws {
        let content = try mutatedLines(seed: seed)
        let path = try folder.file("log", content)
        let reported = Mutex<[Int]>([])
        let subscription = store.subscribe { summary in
            reported.withLock { $0 += summary.rejected.map(\.number) }
        }
        let summary = try await read([path])
        subscription.unsubscribe()

        let lineCount = content.count { $0 == UInt8(ascii: "\n") } + (content.last == UInt8(ascii: "\n") ? 0 : 1)
        #expect(summary.lines == lineCount)
        #expect(summary.requests == summary.statusClasses.reduce(0, +))
        #expect(summary.requests == summary.paths.busiest(.max).reduce(summary.withoutPath) { $0 + $1.count })
        let numbers = reported.withLock { $0 }
        #expect(numbers.count == summary.malformed && numbers == Set(numbers).sorted())
        #expect(summary.malformed > 10 && summary.requests > 10)
    }

    @Test("The reader is at most one chunk ahead of the subscriptions")
    func readerWaits() async throws {
        let lines = String(repeating: goodLine(path: "/" + String(repeating: "x", count: 900)), count: 4_000)
        let file = try LogFile(path: try folder.file("log", Data(lines.utf8)))
        let lead = Mutex(0)
        let subscription = store.subscribe { summary in
            let ahead = file.progress.bytesRead - (summary.progress?.bytesRead ?? 0)
            lead.withLock { $0 = max($0, ahead) }
        }
        let creator = FluxActionCreator<AccessLogConverter>(store: store)
        #expect(await LogFeed(creator: creator, store: store).read([file]) == nil)
        subscription.unsubscribe()
        #expect(store.state.requests == 4_000)
        #expect(lead.withLock { $0 } <= LogSource.chunkSize)
    }

    @Test("A line that is too long is malformed, and the next one is read")
    func tooLong() async throws {
        // Its beginning alone would be a good line.
        let long = goodLine().dropLast() + " " + String(repeating: "x", count: 3 * LineSplitter.longestLine) + "\n"
        let summary = try await read([try folder.file("log", Data((goodLine() + long + goodLine()).utf8))])
        #expect(summary.requests == 2 && summary.malformed == 1)
    }

    @Test("A sum of sizes that no number can hold stops at the maximum")
    func saturates() async throws {
        let line = goodLine().replacingOccurrences(of: " 200 10 ", with: " 600 \(Int.max) ")
        let summary = try await read([try folder.file("log", Data((line + line).utf8))])
        #expect(summary.bytes == .max)
        #expect(summary.statusClasses == [2, 0, 0, 0, 0, 0])
    }

    @Test("Several files give one summary, and each has its own line numbers")
    func severalFiles() async throws {
        let files = [
            try folder.file("a", Data((goodLine() + "bad").utf8)),
            try folder.file("b", Data(("bad\n" + goodLine()).utf8)),
        ]
        let rejected = Mutex<[String]>([])
        let subscription = store.subscribe { summary in
            let lines = summary.rejected.map { "\(URL(filePath: $0.file).lastPathComponent):\($0.number)" }
            rejected.withLock { $0 += lines }
        }
        let summary = try await read(files)
        subscription.unsubscribe()
        #expect(summary.requests == 2 && summary.malformed == 2)
        #expect(rejected.withLock { $0 } == ["a:2", "b:1"])
    }
}
