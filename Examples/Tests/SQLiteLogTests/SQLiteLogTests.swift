import FluxCore
import FluxPersistence
import FluxTesting
import Foundation
import GRDB
import Testing

@testable import SQLiteLog

/// The log on SQLite: it is a correct log, and reports a database that it cannot use.
@Suite final class SQLiteLogTests {
    let folder = FileManager.default.temporaryDirectory.appending(component: "SQLiteLog-\(UUID().uuidString)")
    var path: String { folder.appending(component: "log.sqlite").path }

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    @Test(arguments: [true, false]) func `The log passes the conformance check`(beginsWithSnapshot: Bool) async throws {
        let actions = [Words.Action.append("a"), .append("an odd 'one'; \0 é"), .clear, .ignore, .append("")]
        try await FluxConformance.check(
            initialState: Words(), actions: actions, beginningWithSnapshot: beginsWithSnapshot
        ) { try self.open() }
    }

    @Test func `A store continues from its log, with its revision`() async throws {
        do {
            let store = FluxStore(initialState: Words(), dispatcher: nil, log: try open(), compactEvery: 7)
            for number in 1...50 { try await store.dispatch(durably: .append("\(number)")) }
        }
        let store = try await FluxStore.restored(from: reopened(), initialState: Words(), dispatcher: nil)
        #expect(store.state.words == (1...50).map { "\($0)" })
        #expect(store.revision == 50)
    }

    @Test func `Durable dispatches of many concurrent callers are all stored`() async throws {
        let log = try open()
        let store = FluxStore(initialState: Words(), dispatcher: nil, log: log)
        await withTaskGroup(of: Void.self) { group in
            for number in 1...500 { group.addTask { _ = try? await store.dispatch(durably: .append("\(number)")) } }
        }
        await store.flush()
        let contents = try await log.load()
        #expect((contents.snapshot?.number ?? 0) + UInt64(contents.entries.count) == 500)
        #expect(store.state.words.count == 500)
        var stored = contents.snapshot?.state ?? Words()
        for entry in contents.entries { if let next = stored.handle(action: entry.action) { stored = next } }
        #expect(stored.words == store.state.words)
    }

    @Test func `An append that fails after some of its actions adds none of them`() async throws {
        let log = try open(Self.fragile)
        func entry(_ number: UInt64, _ word: String) -> FluxLogEntry<Words.Action> {
            FluxLogEntry(number: number, action: .append(word))
        }
        try await log.append([entry(1, "1")])
        // A row of its own, which is written before the action after it.
        let long = entry(2, String(repeating: "2", count: 1_000))
        let error = await #expect(throws: SQLiteLog<Words>.Failure.self) {
            try await log.append([long, entry(3, "3"), entry(4, "refused")])
        }
        #expect(error?.reason is Refusal)
        #expect(try await log.load().entries.map(\.number) == [1])
        try await log.append([long, entry(3, "3")])
        #expect(try await log.load().entries.map(\.number) == [1, 2, 3])
    }

    @Test func `A compaction that fails after storing the snapshot stores none`() async throws {
        do {
            let log = try open()
            for number in 1...3 as ClosedRange<UInt64> {
                try await log.append([FluxLogEntry(number: number, action: .append("\(number)"))])
            }
        }
        let stop = "CREATE TRIGGER stop BEFORE DELETE ON actions BEGIN SELECT RAISE(ABORT, 'stopped'); END"
        _ = try rows(after: stop)
        let log = try await reopened()
        await #expect(throws: SQLiteLog<Words>.Failure.self) {
            try await log.compact(FluxSnapshot(state: Words(words: ["1", "2", "3"]), number: 3, revision: 3))
        }
        #expect(try await log.load().snapshot == nil)
        #expect(try await numbers(in: log) == [1, 2, 3])
    }

    struct Refusal: Error {}

    /// A coding that cannot encode one of the words.
    private static let fragile = SQLiteLog<Words>.Coding(
        encodeState: { try JSONEncoder().encode($0) },
        encodeAction: { action in
            if case .append("refused") = action { throw Refusal() }
            return try JSONEncoder().encode(action)
        },
        decodeState: { try JSONDecoder().decode(Words.self, from: $1) },
        decodeAction: { try JSONDecoder().decode(Words.Action.self, from: $1) })

    @Test func `A second log on the same database is refused`() async throws {
        let log = try open()
        let error = #expect(throws: SQLiteLog<Words>.Failure.self) {
            try SQLiteLog<Words>(path: self.path, coding: .json(), patience: 0)
        }
        #expect(error?.reason is SQLiteLog<Words>.InUse)
        #expect(
            error?.description.hasPrefix(path + ": the database is locked: another store or process has it") == true)
        try await log.append([FluxLogEntry(number: 1, action: .append("a"))])
    }

    @Test func `An append is refused while the file is deleted, moved or replaced`() async throws {
        let (log, away) = (try open(), path + ".away")
        let entries = [FluxLogEntry(number: 1, action: Words.Action.append("a"))]
        func isRefused() async -> Bool {
            await #expect(throws: SQLiteLog<Words>.Failure.self) { try await log.append(entries) }?.reason
                is SQLiteLog<Words>.Moved
        }
        try FileManager.default.moveItem(atPath: path, toPath: away)
        #expect(await isRefused())
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(await isRefused())
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: away, toPath: path)
        #expect(try await log.load().entries.isEmpty)
        try await log.append(entries)
        try FileManager.default.removeItem(atPath: path)
        #expect(await isRefused())
    }

    // MARK: - Bad input

    @Test func `A file that is not a database is refused with its path, and stays unchanged`() async throws {
        let content = Data(repeating: 7, count: 5_000)
        try content.write(to: URL(fileURLWithPath: path))
        let error = #expect(throws: SQLiteLog<Words>.Failure.self) { try self.open() }
        #expect(error?.description.hasPrefix(path + ": ") == true)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == content)
    }

    @Test func `A database of another program is refused with its path, and stays unchanged`() async throws {
        // Two databases: one with its own tables, and one with only its number in the header.
        for sql in ["CREATE TABLE actions (id INTEGER PRIMARY KEY, title TEXT)", "PRAGMA application_id = 7"] {
            try? FileManager.default.removeItem(atPath: path)
            try await DatabaseQueue(path: path).write { try $0.execute(sql: sql) }
            let content = try Data(contentsOf: URL(fileURLWithPath: path))
            let error = #expect(throws: SQLiteLog<Words>.Failure.self) { try self.open() }
            #expect(error?.description == "\(path): the database belongs to something else")
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == content)
        }
    }

    @Test func `A folder that does not exist is refused with the path`() throws {
        let error = #expect(throws: SQLiteLog<Words>.Failure.self) {
            try SQLiteLog<Words>(path: self.path + "/none/log", coding: .json())
        }
        #expect(error?.description.hasPrefix(path + "/none/log: ") == true)
    }

    @Test func `An invalid path, or one that SQLite opens in memory, is refused with that path`() throws {
        for path in ["", self.path + "\0/other", "file:\(self.path)?mode=memory"] {
            let error = #expect(throws: SQLiteLog<Words>.Failure.self) {
                try SQLiteLog<Words>(path: path, coding: .json())
            }
            #expect(error?.description.hasPrefix(path + ": ") == true)
        }
    }

    @Test func `A directory in place of the database is refused with its path`() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let error = #expect(throws: SQLiteLog<Words>.Failure.self) { try self.open() }
        #expect(error?.description.hasPrefix(path + ": ") == true)
    }

    @Test func `A row that does not decode is reported, and the log is not written to`() async throws {
        var broken = SQLiteLog<Words>.Coding.json()
        broken.encodeAction = { _ in Data("no JSON".utf8) }
        do {
            let store = FluxStore(initialState: Words(), dispatcher: nil, log: try open(broken))
            try await store.dispatch(durably: .append("in the snapshot"))
            try await store.dispatch(durably: .append("lost"))
        }
        do {
            let store = FluxStore(
                initialState: Words(), dispatcher: nil, log: try await reopened(), onFailure: { _ in })
            guard case .failed(let error) = await store.ready else {
                Issue.record("it was read")
                return
            }
            #expect("\(error)".hasPrefix(path + ": "))
            store.dispatch(action: .append("new"))
            await store.flush()
            await #expect(throws: FluxDurabilityError.self) { try await store.dispatch(durably: .append("new")) }
        }
        var mended = SQLiteLog<Words>.Coding.json()
        mended.decodeAction = { _, bytes in .append(String(decoding: bytes, as: UTF8.self)) }
        let recovered = try await FluxStore.restored(from: reopened(mended), initialState: Words(), dispatcher: nil)
        #expect(recovered.state.words == ["in the snapshot", "no JSON"], "all of it is still there")
    }

    // MARK: - Versions

    @Test func `Migrations get the stored version and the raw bytes, and a downgrade is refused`() async throws {
        do {
            let store = FluxStore(initialState: Words(), dispatcher: nil, log: try open(.json(version: 1)))
            for word in ["a", "b", "c"] { try await store.dispatch(durably: .append(word)) }
        }
        let coding = SQLiteLog<Words>.Coding.json(
            version: 2,
            migrateState: { version, bytes in
                var words = try JSONDecoder().decode(Words.self, from: bytes)
                words.words = words.words.map { "\($0)\(version)" }
                return words
            },
            migrateAction: { version, bytes in
                guard case .append(let word) = try JSONDecoder().decode(Words.Action.self, from: bytes) else {
                    return .ignore
                }
                return .append("\(word)\(version)")
            })
        do {
            let store = FluxStore(initialState: Words(), dispatcher: nil, log: try await reopened(coding))
            try await store.dispatch(durably: .append("d"))
            #expect(store.state.words == ["a1", "b1", "c1", "d"])
        }
        do {
            let again = try await FluxStore.restored(from: reopened(coding), initialState: Words(), dispatcher: nil)
            #expect(again.state.words == ["a1", "b1", "c1", "d"])
        }
        let error = await #expect(throws: SQLiteLog<Words>.Failure.self) {
            try await FluxStore.restored(
                from: self.reopened(.json(version: 1)), initialState: Words(), dispatcher: nil)
        }
        #expect(error?.description == "\(path): the database has version 2, but this program knows only 1")
    }

    @Test(arguments: [false, true])
    func `A database of an older program is converted when it is opened`(hasChecksums: Bool) async throws {
        try await makeOlder(hasChecksums: hasChecksums)
        do {
            let store = FluxStore(initialState: Words(), dispatcher: nil, log: try open())
            try await store.dispatch(durably: .append("d"))
        }
        let again = try await FluxStore.restored(from: reopened(), initialState: Words(), dispatcher: nil)
        #expect(again.state.words == ["a", "b", "c", "d"])
        #expect(again.revision == 4)
    }

    @Test func `A damaged database of an older program is refused with its path, and stays unchanged`() async throws {
        try await makeOlder(hasChecksums: true)
        let before = try rows(by: "number", after: "UPDATE actions SET version = 0 WHERE number = 3")
        let error = #expect(throws: SQLiteLog<Words>.Failure.self) { try self.open() }
        #expect(error?.description == "\(path): the row with number 3 is damaged")
        #expect(try rows(by: "number") == before)
    }

    @Test func `An older database that has lost the last rows of a page is refused`() async throws {
        try await makeOlder(hasChecksums: true, count: 200)
        var file = try Data(contentsOf: URL(fileURLWithPath: path))
        // A leaf of a table, with the number of its rows in the fourth and fifth byte.
        let page = file.count - 4_096
        #expect(file[page] == 13)
        file[page + 4] -= 5
        try file.write(to: URL(fileURLWithPath: path))
        let error = #expect(throws: SQLiteLog<Words>.Failure.self) { try self.open() }
        #expect(error?.reason is SQLiteLog<Words>.Damaged)
    }

    /// A database as the first version of the program created it: a snapshot of "a", and a row for each later action.
    private func makeOlder(hasChecksums: Bool, count: Int64 = 1) async throws {
        try await DatabaseQueue(path: path).write { database in
            let checksum = hasChecksums ? ", checksum INTEGER NOT NULL" : ""
            try database.execute(
                sql: """
                    PRAGMA application_id = \(0x466C_7578);
                    CREATE TABLE actions
                        (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, bytes BLOB NOT NULL\(checksum));
                    CREATE TABLE snapshot
                        (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL,
                         revision INTEGER NOT NULL, version INTEGER NOT NULL, bytes BLOB NOT NULL\(checksum));
                    """)
            func insert(_ table: String, _ numbers: [Int64], _ bytes: Data) throws {
                let values = (table == "snapshot" ? [1] : []) + numbers
                let sum = hasChecksums ? [SQLiteLogChecksum.of(numbers, bytes)] : []
                let places = Array(repeating: "?", count: values.count + 1 + sum.count).joined(separator: ", ")
                try database.execute(
                    sql: "INSERT INTO \(table) VALUES (\(places))",
                    arguments: StatementArguments(values) + [bytes] + StatementArguments(sum))
            }
            try insert("snapshot", [1, 1, 1], JSONEncoder().encode(Words(words: ["a"])))
            try insert("actions", [2, 1], JSONEncoder().encode(Words.Action.append("b")))
            for number in 3..<3 + count {
                try insert("actions", [number, 1], JSONEncoder().encode(Words.Action.append("c")))
            }
        }
    }

    // MARK: - Rows

    @Test(arguments: [1, 7, 200])
    func `Actions share rows, however many are added at a time`(at size: Int) async throws {
        let entries = (1...200).map { FluxLogEntry(number: UInt64($0), action: Words.Action.append("\($0)")) }
        do {
            let log = try open()
            for start in stride(from: 0, to: 200, by: size) {
                let batch = Array(entries[start...].prefix(size))
                // Twice, as after an append that was reported as failed.
                for _ in 0..<2 { try await log.append(batch) }
            }
            #expect(try await numbers(in: log) == Array(1...200))
            try await log.compact(FluxSnapshot(state: Words(), number: 150, revision: 150))
            #expect(try await numbers(in: log) == Array(151...200))
        }
        // About 25 bytes for each action: 50 of them, and in the first row also the rest of those before.
        let rows = try rows()
        #expect((2...3).contains(rows.count), "\(rows)")
        #expect(rows.allSatisfy { ($0["bytes"] as Data).count <= 980 })
        let log = try await reopened()
        try await log.append([FluxLogEntry(number: 201, action: .append("201"))])
        try await log.compact(FluxSnapshot(state: Words(), number: 201, revision: 201))
        #expect(try await numbers(in: log) == [])
    }

    @Test func `A missing number starts another row, so the gap is detected`() async throws {
        let log = try open()
        for number in [1, 2, 4, 5] as [UInt64] {
            try await log.append([FluxLogEntry(number: number, action: .append("\(number)"))])
        }
        #expect(try await numbers(in: log) == [1, 2, 4, 5])
        await #expect(throws: FluxLogGap.self) {
            try await FluxStore.restored(from: log, initialState: Words(), dispatcher: nil)
        }
    }

    /// Damages the columns that say which actions are in a row: the page is intact with any values there.
    @Test(arguments: ["last = last - 128", "last = first - 1, bytes = x''", "first = first + 1"])
    func `A damaged row that seems to be covered is reported, and not skipped`(damage: String) async throws {
        do {
            let log = try open()
            for number in 1...3 { try await log.append([FluxLogEntry(number: UInt64(number), action: .append("a"))]) }
        }
        _ = try rows(after: "UPDATE actions SET \(damage)")
        let log = try await reopened()
        let error = await #expect(throws: SQLiteLog<Words>.Failure.self) { try await log.load() }
        #expect(error?.description.hasSuffix("is damaged") == true)
    }

    @Test func `An action longer than a row gets its own row, and the next action starts another`() async throws {
        let lengths = [1, 970, 971, 5_000, 1, 2, 100_000, 100_000, 3]
        do {
            let log = try open(Self.plain)
            let entries = lengths.enumerated().map { index, length in
                FluxLogEntry(
                    number: UInt64(index + 1), action: Words.Action.append(String(repeating: "a", count: length)))
            }
            for count in 1...entries.count {
                try await log.append([entries[count - 1]])
                // Again, with the one before it, as after an append that was reported as failed.
                try await log.append(Array(entries[..<count].suffix(2)))
            }
            let read = try await log.load().entries.map { entry -> Int in
                guard case .append(let word) = entry.action else { return 0 }
                return word.count
            }
            #expect(read == lengths)
        }
        #expect(try rows().map { $0["first"] as Int } == [1, 3, 4, 5, 7, 8, 9])
    }

    /// Words as plain bytes.
    private static let plain = SQLiteLog<Words>.Coding(
        encodeState: { try JSONEncoder().encode($0) },
        encodeAction: { action in
            if case .append(let word) = action { Data(word.utf8) } else { Data() }
        },
        decodeState: { try JSONDecoder().decode(Words.self, from: $1) },
        decodeAction: { .append(String(decoding: $1, as: UTF8.self)) })

    @Test func `An older database with a newer version is refused, and stays unchanged`() async throws {
        try await makeOlder(hasChecksums: false)
        try await DatabaseQueue(path: path).write { try $0.execute(sql: "UPDATE snapshot SET version = 2") }
        let before = try rows(by: "number")
        let error = #expect(throws: SQLiteLog<Words>.Failure.self) { try self.open() }
        #expect(error?.description == "\(path): the database has version 2, but this program knows only 1")
        #expect(try rows(by: "number") == before)
    }

    @Test func `A damaged row gets no valid checksum, and nothing is acknowledged`() async throws {
        do { try await open().append([FluxLogEntry(number: 1, action: .append("a"))]) }
        let before = try rows(after: "UPDATE actions SET bytes = x'0300000061626364'")
        do {
            let log = try await reopened()
            let error = await #expect(throws: SQLiteLog<Words>.Failure.self) {
                try await log.append([FluxLogEntry(number: 2, action: .append("b"))])
            }
            #expect(error?.description == "\(path): the row with number 1 is damaged")
        }
        #expect(try rows() == before)
    }

    private func numbers(in log: SQLiteLog<Words>) async throws -> [UInt64] {
        try await log.load().entries.map { entry in
            guard case .append("\(entry.number)") = entry.action else { return 0 }
            return entry.number
        }
    }

    /// The rows of the database, which a log may be about to close.
    private func rows(by key: String = "first", after sql: String = "") throws -> [Row] {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        return try DatabaseQueue(path: path, configuration: configuration).write { database in
            try database.execute(sql: sql)
            return try Row.fetchAll(database, sql: "SELECT * FROM actions ORDER BY \(key)")
        }
    }

    func open(_ coding: SQLiteLog<Words>.Coding = .json()) throws -> SQLiteLog<Words> {
        try SQLiteLog(path: path, coding: coding)
    }

    /// Opens the database once the released log has closed it, without blocking a thread that the closing may need.
    func reopened(_ coding: SQLiteLog<Words>.Coding = .json()) async throws -> SQLiteLog<Words> {
        let path = path
        return try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try SQLiteLog<Words>(path: path, coding: coding, patience: 60) })
            }
        }
    }
}

struct Words: FluxState, Codable, Equatable {
    enum Action: FluxAction, Codable { case append(String), clear, ignore }

    var words: [String] = []

    mutating func handle(action: Action) -> Words? {
        switch action {
        case .append(let word): words.append(word)
        case .clear: words = []
        case .ignore: return nil
        }
        return self
    }
}
