import FluxCore
import FluxPersistence
import Foundation
import GRDB
import ProgramTesting
import Testing

@testable import SQLiteLog

/// Whatever the database contains, nothing stops the program, and nothing damaged passes for what was written.
///
/// It runs for some seconds. `FUZZ=10000000 swift test --package-path Examples --filter FuzzTests` runs this many
/// inputs, one in a thousand of them a whole database.
@Suite struct FuzzTests {
    private static let inputs = ProcessInfo.processInfo.environment["FUZZ"].flatMap { Int($0) } ?? 20_000

    struct Wrong: Error, CustomStringConvertible {
        let description: String
    }

    @Test func `A changed row is refused, whatever its values are`() throws {
        var random = SplitMix(seed: 15)
        try DatabaseQueue().write { database in
            let select = try database.cachedStatement(sql: "SELECT ?, ?, ?, ?")
            let coding = SQLiteLog<Words>.Coding.json()
            let written = [
                try coding.encodeAction(.append("milk")), try coding.encodeState(Words(words: ["milk", "eggs"])),
            ]
            for input in 0..<Self.inputs {
                let numbers = [Self.number(&random), Int64.random(in: 0...3, using: &random)]
                let bytes = Self.bytes(written[input % 2], &random)
                let whole: [DatabaseValue] = [
                    numbers[0].databaseValue, numbers[1].databaseValue, bytes.databaseValue,
                    SQLiteLogChecksum.of(numbers, bytes).databaseValue,
                ]
                // Intact bytes need not decode, and must not stop the program.
                if input % 2 == 0 {
                    _ = try? coding.decodeAction(Int(numbers[1]), bytes)
                } else {
                    _ = try? coding.decodeState(Int(numbers[1]), bytes)
                }
                var values = whole
                for _ in 0...Int.random(in: 0...2, using: &random) { Self.damage(&values, &random) }
                let rows = try Row.fetchCursor(select, arguments: StatementArguments(values))
                // The statement has the row until the cursor is released.
                defer { withExtendedLifetime(rows) {} }
                guard try rows.next() != nil else { continue }
                var read: [Int64] = []
                guard let readBytes = try? SQLiteLogChecksum.contents(of: select.sqliteStatement, &read) else {
                    if values == whole { throw Wrong(description: "what was written is refused: \(whole)") }
                    continue
                }
                if values != whole { throw Wrong(description: "\(values) is taken for \(whole)") }
                if (read, readBytes) != (numbers, bytes) { throw Wrong(description: "\(read) is read of \(whole)") }
            }
        }
    }

    @Test func `A row's bytes are decoded as they were encoded, or refused`() throws {
        var random = SplitMix(seed: 17)
        for input in 0..<Self.inputs {
            let first = min(Self.number(&random), .max - 10)
            var row = SQLiteLogRow(first: first, last: first &- 1, version: 1, bytes: Data())
            let actions = (0..<Int.random(in: 1...4, using: &random)).map { _ in Self.bytes(Data("milk".utf8), &random)
            }
            for action in actions { try row.append(action) }
            func read(_ bytes: Data, to last: Int64) throws -> [Data] {
                var read: [Data] = []
                try SQLiteLogRow.forEach(in: bytes, from: first, to: last) { number, action in
                    #expect(number == first &+ Int64(read.count))
                    read.append(action)
                }
                return read
            }
            let (bytes, last) = (row.bytes, row.last)
            if try read(bytes, to: last) != actions {
                throw Wrong(description: "input \(input): not as it was written")
            }
            for (bytes, last, what) in [
                (bytes + [0], last, "a byte more"), (bytes, last &+ 1, "an action less"),
                (Data(), first &- 1, "a row of nothing"),
            ] where (try? read(bytes, to: last)) != nil {
                throw Wrong(description: "input \(input): \(what) is not seen")
            }
            // Whatever the bytes are, they must not stop the program.
            _ = try? read(Self.bytes(bytes + [0], &random), to: last)
        }
    }

    @Test func `A database with damaged bytes is refused, or has everything that was written`() async throws {
        var random = SplitMix(seed: 16)
        let (image, written) = try await Self.database()
        var refused = 0
        for input in 0..<max(Self.inputs / 1_000, 200) {
            var damaged = image
            damaged["log.sqlite"] = Self.damaged(image["log.sqlite"]!, &random)
            let disk = DatabaseDisk(damaged)
            // An empty file counts as a new database: only the file system can tell that there was another one.
            if damaged["log.sqlite"]!.isEmpty { continue }
            do {
                let log = try SQLiteLog<Words>(path: disk.folder + "log.sqlite", coding: .json())
                let read = try await Self.words(log.load())
                if read != written { throw Wrong(description: "input \(input): \(read) is taken for \(written)") }
            } catch is SQLiteLog<Words>.Failure {
                refused += 1
            }
        }
        #expect(refused > 50)
    }

    // MARK: - Damage

    /// A database with a snapshot and actions on several pages, all of it in one file.
    private static func database() async throws -> (DatabaseDisk.Image, [String]) {
        let disk = DatabaseDisk()
        do {
            let log = try SQLiteLog<Words>(path: disk.folder + "log.sqlite", coding: .json())
            let words = (1...40).map { "the word of number \($0)" }
            try await log.compact(FluxSnapshot(state: Words(words: words), number: 40, revision: 40))
            let entries = (41...300).map { number in
                FluxLogEntry(number: UInt64(number), action: Words.Action.append("\(number)"))
            }
            try await log.append(entries)
        }
        let log = try SQLiteLog<Words>(path: disk.folder + "log.sqlite", coding: .json())
        return (disk.current, try await words(log.load()))
    }

    private static func words(_ contents: FluxLogContents<Words>) -> [String] {
        var words = contents.snapshot?.state.words ?? []
        for entry in contents.entries {
            if case .append(let word) = entry.action { words.append("\(entry.number) \(word)") }
        }
        return words
    }

    private static func damaged(_ file: [UInt8], _ random: inout SplitMix) -> [UInt8] {
        var file = file
        for _ in 0...Int.random(in: 0...2, using: &random) where !file.isEmpty {
            let start = Int.random(in: 0..<file.count, using: &random)
            let end = min(start + Int.random(in: 1...64, using: &random), file.count)
            switch Int.random(in: 0...6, using: &random) {
            case 0: file[start] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1: file[start] = UInt8.random(in: 0...255, using: &random)
            case 2: for index in start..<end { file[index] = 0 }
            case 3: for index in start..<end { file[index] = UInt8.random(in: 0...255, using: &random) }
            case 4: file.removeSubrange(start...)
            // A whole page, as by a disk that loses or misplaces one.
            case 5:
                for index in start / 4_096 * 4_096..<min(start / 4_096 * 4_096 + 4_096, file.count) { file[index] = 0 }
            default:
                let from = Int.random(in: 0..<file.count, using: &random)
                for index in start..<end where from + index - start < file.count {
                    file[index] = file[from + index - start]
                }
            }
        }
        return file
    }

    private static func damage(_ values: inout [DatabaseValue], _ random: inout SplitMix) {
        let place = Int.random(in: 0..<values.count, using: &random)
        switch (Int.random(in: 0...5, using: &random), values[place].storage) {
        case (0, _): values[place] = anyValue(&random)
        case (1, _): values.swapAt(place, Int.random(in: 0..<values.count, using: &random))
        case (2, .int64(let number)):
            values[place] = (number ^ 1 << Int64.random(in: 0..<64, using: &random)).databaseValue
        case (2..., .blob(var bytes)) where !bytes.isEmpty:
            let index = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0...2, using: &random) {
            case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1: bytes.removeSubrange(index...)
            default: bytes.append(0)
            }
            values[place] = bytes.databaseValue
        default: break
        }
    }

    private static func anyValue(_ random: inout SplitMix) -> DatabaseValue {
        switch Int.random(in: 0...5, using: &random) {
        case 0: .null
        case 1: number(&random).databaseValue
        case 2: Double.random(in: -10...10, using: &random).databaseValue
        case 3: "text".databaseValue
        case 4: "\(Int.random(in: 0...3, using: &random))".databaseValue
        default: Data((0..<Int.random(in: 0...9, using: &random)).map { UInt8($0) }).databaseValue
        }
    }

    private static func number(_ random: inout SplitMix) -> Int64 {
        [0, 1, -1, .min, .max, Int64.random(in: 1...1_000, using: &random)].randomElement(using: &random)!
    }

    /// The written bytes, either unchanged or with one byte changed, or any other bytes.
    private static func bytes(_ written: Data, _ random: inout SplitMix) -> Data {
        var bytes = written
        switch Int.random(in: 0...3, using: &random) {
        case 0: bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
        case 1:
            bytes = Data(
                (0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) })
        default: break
        }
        return bytes
    }
}
