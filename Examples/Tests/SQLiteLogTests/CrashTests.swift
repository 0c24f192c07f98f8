import Foundation
import ProgramTesting
import Testing

/// A real process, killed at a random moment and started again: nothing acknowledged is missing, nothing is there twice.
///
/// It is killed 200 times; `CRASHES=2000 swift test --package-path Examples --filter CrashTests` does that more often.
@Suite struct CrashTests {
    static let crashes = ProcessInfo.processInfo.environment["CRASHES"].flatMap { Int($0) } ?? 200

    @Test(arguments: [1, 4]) func `No acknowledged action is lost, doubled or skipped`(producers: Int) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(component: "Crash-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(component: "log.sqlite").path

        var acknowledged = [Int](repeating: 0, count: producers)
        var recoveries = 0
        var random = SystemRandomNumberGenerator()
        // From before the database is open to well after the program counts, at the machine's current speed.
        var reach = 0.1
        for crash in 1...(Self.crashes / 2) {
            let patience = Double.random(in: 0...(crash.isMultiple(of: 4) ? reach / 5 : reach), using: &random)
            let lines = try await run([path, "\(producers)"], for: patience)
            reach = lines.isEmpty ? min(reach * 1.2, 5) : max(reach * 0.9, 0.1)
            for line in lines {
                let words = line.split(separator: " ")
                let numbers = words.dropFirst().compactMap { Int($0) }
                if words.first == "recovered" {
                    recoveries += 1
                    let marks = Array(numbers[3...])
                    for producer in 0..<producers {
                        #expect(marks[producer] >= acknowledged[producer], "crash \(crash): acknowledged and lost")
                        #expect(marks[producer] <= acknowledged[producer] + 1, "crash \(crash): never sent")
                    }
                    #expect(numbers[0] == marks.reduce(0, +), "crash \(crash): applied twice")
                    #expect(numbers[1] == 0, "crash \(crash): a gap, or out of order")
                    #expect(numbers[2] == max(numbers[0], 0), "crash \(crash): the revision did not go on")
                    acknowledged = marks
                } else if words.first == "acknowledged" {
                    #expect(numbers[1] == acknowledged[numbers[0]] + 1, "crash \(crash)")
                    acknowledged[numbers[0]] = numbers[1]
                } else {
                    Issue.record("crash \(crash): \(line)")
                }
            }
        }
        #expect(recoveries > Self.crashes / 10, "most have come that far")
        #expect(acknowledged.allSatisfy { $0 > Self.crashes / 2 }, "and have counted: \(acknowledged)")
    }

    /// Starts the program, kills it after this many seconds, and returns what it has printed until then.
    private func run(_ arguments: [String], for seconds: Double) async throws -> [String] {
        let program = try Command(program: Command.built("durable-counter"), arguments)
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { program.send(SIGKILL) }
        return await program.finish().output.split(separator: "\n").map(String.init)
    }
}
