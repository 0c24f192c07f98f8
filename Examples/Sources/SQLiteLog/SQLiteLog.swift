import FluxCore
import FluxPersistence
import Foundation
import GRDB
import GRDBSQLite

/// A log of actions in an SQLite database: a transaction for each batch, and a snapshot now and then.
///
/// Copy this file into a target that depends on FluxPersistence and on GRDB 7, the products `GRDB` and `GRDBSQLite`; it needs
/// nothing else.
///
/// ```swift
/// let log = try SQLiteLog<Todo>(path: "/var/lib/todo/log.sqlite", coding: .json())
/// let store = FluxStore(initialState: Todo(), log: log)
/// try await store.dispatch(durably: .add("milk"))  // on disk when it returns
/// ```
///
/// The database is in WAL mode with `synchronous = FULL`: a transaction that has returned survives a loss of power. It is
/// locked for as long as it is open, so that it belongs to one store of one process. A database of something else is
/// refused as it is. Nothing is acknowledged once its file has been deleted, moved or replaced while it was open; its `-wal`
/// file is not looked at, and is to be left alone. What it cannot read it reports and leaves as it is: a store does not write
/// to a log that it could not read.
///
/// Actions that follow each other share a row, up to a thousand bytes: that is written as fast as a row for each, since a page
/// goes to the disk as a whole, and is read many times faster. Each row has a checksum, and the pages are checked before they
/// are read: what has been damaged is not taken for what was written.
///
/// Thread safety: all of it may be used from any thread; the database takes one call at a time.
public final class SQLiteLog<State: FluxState>: FluxLog {
    /// How states and actions become bytes, and how bytes of an older version become states and actions.
    public struct Coding: Sendable {
        /// The version of what `encodeState` and `encodeAction` make; bytes of a later one are refused.
        public var version: Int
        /// Makes bytes of a state.
        public var encodeState: @Sendable (State) throws -> Data
        /// Makes bytes of an action.
        public var encodeAction: @Sendable (State.Action) throws -> Data
        /// Gets the version that is stored, this one or an older one, and the raw bytes.
        public var decodeState: @Sendable (_ version: Int, _ bytes: Data) throws -> State
        /// Gets the version that is stored, this one or an older one, and the raw bytes.
        public var decodeAction: @Sendable (_ version: Int, _ bytes: Data) throws -> State.Action
        /// Adds an entry, as the module that makes the coding has specialised it: here each would look for its types.
        @usableFromInline let append: @Sendable (inout [FluxLogEntry<State.Action>], UInt64, State.Action) -> Void

        /// Makes a coding.
        ///
        /// - Parameters:
        ///   - version: The version of what the first two make.
        ///   - encodeState: Makes bytes of a state.
        ///   - encodeAction: Makes bytes of an action.
        ///   - decodeState: Makes a state of the version that is stored, and the raw bytes.
        ///   - decodeAction: Makes an action of the version that is stored, and the raw bytes.
        @inlinable public init(
            version: Int = 1,
            encodeState: @escaping @Sendable (State) throws -> Data,
            encodeAction: @escaping @Sendable (State.Action) throws -> Data,
            decodeState: @escaping @Sendable (_ version: Int, _ bytes: Data) throws -> State,
            decodeAction: @escaping @Sendable (_ version: Int, _ bytes: Data) throws -> State.Action
        ) {
            self.version = version
            self.encodeState = encodeState
            self.encodeAction = encodeAction
            self.decodeState = decodeState
            self.decodeAction = decodeAction
            append = { $0.append(FluxLogEntry(number: $1, action: $2)) }
        }
    }

    /// What is wrong with the database at a path.
    public struct Failure: Error, CustomStringConvertible {
        /// Where the database is.
        public let path: String
        /// What SQLite, or the coding, has thrown.
        public let reason: any Error
        /// One line that begins with the path.
        public var description: String { "\(path): \(reason)" }
        /// Whether the disk did not do what it was asked to, as one that is full: that may pass, and the database may be well.
        public var isOfDisk: Bool {
            let code = (reason as? DatabaseError)?.resultCode
            return [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_READONLY].contains(code)
        }
    }

    /// The database holds a version that comes after the one the program knows, so it is refused as it is.
    public struct Newer: Error, CustomStringConvertible {
        /// The version in the database.
        public let stored: Int
        /// The version of the coding.
        public let known: Int
        /// One line that says so.
        public var description: String { "the database has version \(stored), but this program knows only \(known)" }
    }

    /// The database is of another program, or of another part of this one, so it is refused as it is.
    public struct Foreign: Error, CustomStringConvertible {
        /// One line that says so.
        public var description: String { "the database belongs to something else" }
    }

    /// Another log has the database open, of this process or of another, and it belongs to one.
    public struct InUse: Error, CustomStringConvertible {
        /// One line that says what to do.
        public var description: String {
            "the database is locked: another store or process has it open; close that one, or pass a longer `patience`"
        }
    }

    /// The path is empty, or has a zero byte: SQLite would make a database that goes when it is closed, or one of another name.
    public struct NotAPath: Error, CustomStringConvertible {
        /// One line that says so.
        public var description: String { "a path must not be empty or contain a zero byte" }
    }

    /// The file was deleted, moved or replaced while the database was open: what goes into it would be found by nobody.
    public struct Moved: Error, CustomStringConvertible {
        /// One line that says what to do.
        public var description: String {
            "the file was deleted, moved or replaced while it was open; put it back, or reopen the log"
        }
    }

    /// The database, or a row of it, is not what was written.
    public struct Damaged: Error, CustomStringConvertible {
        /// One line that says where.
        public let description: String
    }

    /// By this in its header a database is known as one of these.
    private static var application: Int { 0x466C_7578 }
    private let path: String
    private let coding: Coding
    private let database: DatabaseQueue

    /// Opens a database on a thread of its own, and makes it if there is none.
    ///
    /// To open one writes to the disk, and may wait for another who has it: a slow disk so keeps no thread from tasks. It is closed,
    /// which may write as well, on the thread on which the last reference goes.
    ///
    /// - Parameters:
    ///   - path: The file, whatever it is called; its folder has to exist.
    ///   - coding: How states and actions become bytes, and back.
    ///   - patience: How long to wait, in seconds, for another who has it open, such as a store that is just going.
    /// - Returns: The log.
    /// - Throws: ``Failure``, with the path.
    public static func opened(path: String, coding: Coding, patience: Double = 5) async throws -> SQLiteLog {
        try await withCheckedThrowingContinuation { continuation in
            // A global queue would take the threads that tasks run on.
            DispatchQueue(label: "SQLiteLog").async {
                continuation.resume(with: Result { try SQLiteLog(path: path, coding: coding, patience: patience) })
            }
        }
    }

    /// Opens a database on this thread, which waits for the disk, and makes it if there is none.
    ///
    /// One of an older version of this file is taken over, which the older program then refuses: a million actions take some seconds.
    ///
    /// - Parameters:
    ///   - path: The file, whatever it is called; its folder has to exist.
    ///   - coding: How states and actions become bytes, and back.
    ///   - patience: How long to wait, in seconds, for another who has it open, such as a store that is just going.
    /// - Throws: ``Failure``, with the path.
    public init(path: String, coding: Coding, patience: Double = 5) throws {
        self.path = path
        self.coding = coding
        var configuration = Configuration()
        configuration.busyMode = .timeout(patience)
        configuration.prepareDatabase { database in
            // First of all: even the journal mode would be written into it.
            let application = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
            let isEmpty = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") == 0
            guard application == Self.application || application == 0 && isEmpty else { throw Foreign() }
            // Two stores would both number their actions on, and each lose what the other has acknowledged.
            // And GRDB's own way into WAL mode would end with `synchronous = NORMAL`.
            try database.execute(
                sql: "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        }
        do {
            if path.isEmpty || path.utf8.contains(0) { throw NotAPath() }
            // With `./` before it a name such as `:memory:` is that of a file.
            database = try DatabaseQueue(path: path.hasPrefix("/") ? path : "./" + path, configuration: configuration)
            try database.write { database in
                // It writes a page each time: with that is synced what another process has committed and, stopped there, not synced.
                try database.execute(
                    sql: """
                        PRAGMA application_id = \(Self.application);
                        CREATE TABLE IF NOT EXISTS snapshot
                            (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL,
                             revision INTEGER NOT NULL, version INTEGER NOT NULL, bytes BLOB NOT NULL,
                             checksum INTEGER NOT NULL);
                        """)
                try Self.addChecksums(in: database)
                try Self.makeRows(in: database, known: coding.version)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            throw Failure(path: path, reason: InUse())
        } catch {
            throw Failure(path: path, reason: error)
        }
    }

    /// Gives the rows checksums that an older program, which knew none, has written.
    private static func addChecksums(in database: Database) throws {
        for (table, columns) in [("actions", "number, version"), ("snapshot", "number, revision, version")]
        where try database.tableExists(table) && !has("checksum", table, database) {
            try database.execute(sql: "ALTER TABLE \(table) ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
            for row in try Row.fetchAll(database, sql: "SELECT \(columns), bytes FROM \(table)") {
                let numbers = (0..<row.count - 1).map { row[$0] as Int64 }
                try database.execute(
                    sql: "UPDATE \(table) SET checksum = ? WHERE number = ?",
                    arguments: [SQLiteLogChecksum.of(numbers, row[row.count - 1]), numbers[0]])
            }
        }
    }

    /// Makes the table of actions, and takes over one of an older program, which had a row for each.
    private static func makeRows(in database: Database, known: Int) throws {
        let isOlder = try database.tableExists("actions") && has("number", "actions", database)
        if isOlder { try database.execute(sql: "ALTER TABLE actions RENAME TO single_actions") }
        // The columns have other names than in that: an older program is told so, and takes no row for an action.
        try database.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS actions
                    (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, version INTEGER NOT NULL, bytes BLOB NOT NULL,
                     checksum INTEGER NOT NULL)
                """)
        if !isOlder { return }
        try requireWhole(database)
        let stored = try Int.fetchOne(
            database,
            sql: "SELECT max(version) FROM (SELECT version FROM single_actions UNION ALL SELECT version FROM snapshot)")
        if let stored, stored > known { throw Newer(stored: stored, known: known) }
        var writer = try SQLiteLogWriter(database)
        let query = try database.makeStatement(
            sql: "SELECT number, version, bytes, checksum FROM single_actions ORDER BY number")
        let rows = try Row.fetchCursor(query)
        var numbers: [Int64] = []
        while try rows.next() != nil {
            let bytes = try SQLiteLogChecksum.contents(of: query.sqliteStatement, &numbers)
            try writer.add(numbers[0], version: numbers[1], bytes)
        }
        try writer.finish()
        try database.execute(sql: "DROP TABLE single_actions")
    }

    /// A checksum says that a row is whole, and nothing of one that is gone.
    private static func requireWhole(_ database: Database) throws {
        // Without "main" SQLite would make a temporary database to check that too, and keep 90 KB for it.
        let findings = try String.fetchAll(database, sql: "PRAGMA main.quick_check(1)")
        if findings != ["ok"] {
            throw Damaged(description: "the database is damaged: \(findings.joined(separator: "; "))")
        }
    }

    private static func has(_ column: String, _ table: String, _ database: Database) throws -> Bool {
        try database.columns(in: table).contains { $0.name == column }
    }

    /// Reads the snapshot and the actions after it.
    ///
    /// - Returns: What is stored.
    /// - Throws: ``Failure``, with the path.
    public func load() async throws -> FluxLogContents<State> {
        try await perform { database, coding in
            try Self.requireWhole(database)
            // One for all rows: to make one takes longer than to read a row.
            var numbers: [Int64] = []
            func known(_ version: Int64) throws -> Int {
                if version > coding.version { throw Newer(stored: Int(version), known: coding.version) }
                return Int(version)
            }
            var snapshot: FluxSnapshot<State>?
            var query = try database.makeStatement(
                sql: "SELECT number, revision, version, bytes, checksum FROM snapshot")
            var rows = try Row.fetchCursor(query)
            while try rows.next() != nil {
                let bytes = try SQLiteLogChecksum.contents(of: query.sqliteStatement, &numbers)
                snapshot = FluxSnapshot(
                    state: try coding.decodeState(known(numbers[2]), bytes),
                    number: UInt64(bitPattern: numbers[0]), revision: UInt64(bitPattern: numbers[1]))
            }
            var entries: [FluxLogEntry<State.Action>] = []
            let covered = Int64(bitPattern: snapshot?.number ?? 0)
            query = try database.makeStatement(
                sql: "SELECT first, last, version, bytes, checksum FROM actions ORDER BY rowid")
            rows = try Row.fetchCursor(query)
            // Asked for once, and not for each of a million actions; the cursor keeps the statement.
            let (statement, decode, append) = (query.sqliteStatement, coding.decodeAction, coding.append)
            while try rows.next() != nil {
                let bytes = try SQLiteLogChecksum.contents(of: statement, &numbers)
                // Not before its checksum was looked at: what says that it is covered may be what is damaged.
                if numbers[1] <= covered { continue }
                let version = try known(numbers[2])
                try SQLiteLogRow.forEach(in: bytes, from: numbers[0], to: numbers[1]) { number, bytes in
                    if number > covered { append(&entries, UInt64(bitPattern: number), try decode(version, bytes)) }
                }
            }
            return FluxLogContents(snapshot: snapshot, entries: entries)
        }
    }

    /// Adds actions, in one transaction.
    ///
    /// - Parameter entries: The actions, with their numbers.
    /// - Throws: ``Failure``, with the path.
    public func append(_ entries: [FluxLogEntry<State.Action>]) async throws {
        try await perform { database, coding in
            var writer = try SQLiteLogWriter(database)
            for entry in entries {
                let bytes = try coding.encodeAction(entry.action)
                try writer.add(Int64(bitPattern: entry.number), version: Int64(coding.version), bytes)
            }
            try writer.finish()
        }
    }

    /// Stores a snapshot and drops what it covers, in one transaction.
    ///
    /// - Parameter snapshot: A state, and the number of the last action in it.
    /// - Throws: ``Failure``, with the path.
    public func compact(_ snapshot: FluxSnapshot<State>) async throws {
        try await perform { database, coding in
            let numbers = [
                Int64(bitPattern: snapshot.number), Int64(bitPattern: snapshot.revision), Int64(coding.version),
            ]
            let bytes = try coding.encodeState(snapshot.state)
            try database.execute(
                sql: "INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?, ?, ?)",
                arguments: [numbers[0], numbers[1], numbers[2], bytes, SQLiteLogChecksum.of(numbers, bytes)])
            // A row that goes on after it stays, and a load passes over what is covered of it.
            try database.execute(
                sql: "DELETE FROM actions WHERE rowid <= ?1 AND last <= ?1", arguments: [numbers[0]])
        }
    }

    private static func requireInPlace(_ database: Database) throws {
        var hasMoved: Int32 = 0
        sqlite3_file_control(database.sqliteConnection, nil, SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        if hasMoved != 0 { throw Moved() }
    }

    /// Runs a body in a transaction, which nothing is left of if the file is not where it was.
    private func perform<Value: Sendable>(
        _ body: @escaping @Sendable (Database, Coding) throws -> Value
    ) async throws -> Value {
        do {
            return try await database.writeWithoutTransaction { [coding] database in
                var value: Value?
                try database.inTransaction {
                    value = try body(database, coding)
                    try Self.requireInPlace(database)
                    return .commit
                }
                // Once more: it may have gone in between, and what is there now may be told to somebody.
                try Self.requireInPlace(database)
                return value!
            }
        } catch {
            throw Failure(path: path, reason: error)
        }
    }
}

/// Actions that follow each other, as the bytes of a row: each has the number of its bytes before it, in four of them, the
/// lowest first.
struct SQLiteLogRow {
    let first: Int64
    private(set) var last: Int64
    let version: Int64
    private(set) var bytes: Data

    /// Adds the action after the last.
    mutating func append(_ action: Data) throws {
        guard let count = UInt32(exactly: action.count) else {
            throw DatabaseError(resultCode: .SQLITE_TOOBIG, message: "an action has \(action.count) bytes")
        }
        withUnsafeBytes(of: count.littleEndian) { bytes.append(contentsOf: $0) }
        bytes.append(action)
        last &+= 1
    }

    /// Calls a closure with each action that the bytes of a row hold, and its number.
    static func forEach(
        in bytes: Data, from first: Int64, to last: Int64, _ body: (_ number: Int64, _ action: Data) throws -> Void
    ) throws {
        try bytes.withUnsafeBytes { bytes in
            var (offset, number) = (0, first)
            while bytes.count - offset >= 4 {
                let count = Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
                if bytes.count - offset - 4 < count { break }
                try body(number, Data(bytes: bytes.baseAddress! + offset + 4, count: count))
                (offset, number) = (offset + 4 + count, number &+ 1)
            }
            // It has its checksum: so it was written by something else.
            if offset != bytes.count || number &- 1 != last || bytes.isEmpty {
                throw SQLiteLogChecksum.Mismatch(number: first)
            }
        }
    }
}

/// Adds actions at the end of the table, to its last row as long as that is short.
struct SQLiteLogWriter {
    /// So long are four rows that fill a page; with more in a row there would be less on it.
    private static let most = 980
    private let insert: Statement
    /// The number of the last action.
    private var last: Int64?
    /// The last row, with what is not written yet; nil where that is longer than it can become here.
    private var row: SQLiteLogRow?
    private var isWritten = true

    init(_ database: Database) throws {
        insert = try database.cachedStatement(sql: "INSERT OR REPLACE INTO actions VALUES (?, ?, ?, ?, ?)")
        let query = try database.cachedStatement(
            sql: """
                SELECT first, last, version, bytes, checksum FROM actions
                WHERE rowid = (SELECT max(rowid) FROM actions) AND length(bytes) <= \(Self.most)
                """)
        let rows = try Row.fetchCursor(query)
        var numbers: [Int64] = []
        while try rows.next() != nil {
            // Damaged it must not get a checksum that says that it is whole.
            let bytes = try SQLiteLogChecksum.contents(of: query.sqliteStatement, &numbers)
            row = SQLiteLogRow(first: numbers[0], last: numbers[1], version: numbers[2], bytes: bytes)
        }
        // A longer one is of one action, and has its number.
        last = try row?.last ?? Int64.fetchOne(database.cachedStatement(sql: "SELECT max(rowid) FROM actions"))
    }

    /// Adds an action, unless it is there: one that was reported as failed may be all the same.
    mutating func add(_ number: Int64, version: Int64, _ action: Data) throws {
        if let last, number <= last { return }
        let hasRoom = row.map { $0.version == version && $0.bytes.count + 4 + action.count <= Self.most } ?? false
        if !hasRoom || last != number &- 1 {
            try finish()
            row = SQLiteLogRow(first: number, last: number &- 1, version: version, bytes: Data())
        }
        try row?.append(action)
        last = number
        isWritten = false
    }

    /// Writes what has been added.
    mutating func finish() throws {
        guard let row, !isWritten else { return }
        let checksum = SQLiteLogChecksum.of([row.first, row.last, row.version], row.bytes)
        try insert.execute(arguments: [row.first, row.last, row.version, row.bytes, checksum])
        isWritten = true
    }
}

/// The checksum of a row, 64 bits of FNV-1a, over its numbers and its bytes.
enum SQLiteLogChecksum {
    /// A row that is not what was written.
    struct Mismatch: Error, CustomStringConvertible {
        let number: Int64?
        var description: String { "the row \(number.map { "with number \($0)" } ?? "without a number") is damaged" }
    }

    static func of(_ numbers: [Int64], _ bytes: Data) -> Int64 {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        func add(_ buffer: UnsafeRawBufferPointer) {
            for byte in buffer { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
        }
        for number in numbers { withUnsafeBytes(of: number.littleEndian) { add($0) } }
        bytes.withUnsafeBytes { add($0) }
        return Int64(bitPattern: sum)
    }

    /// Takes the row apart that a statement is at, which ends with its bytes and its checksum; what stands before them are
    /// numbers.
    ///
    /// It asks the statement itself, as a restart reads a million of them: GRDB's `Row` takes five times as long.
    static func contents(of statement: SQLiteStatement, _ numbers: inout [Int64]) throws -> Data {
        numbers.removeAll(keepingCapacity: true)
        // Whatever type the values have: SQLite takes any in any column.
        func number(in column: CInt) -> Int64? {
            sqlite3_column_type(statement, column) == SQLITE_INTEGER ? sqlite3_column_int64(statement, column) : nil
        }
        let last = sqlite3_column_count(statement) - 1
        for column in 0..<last - 1 { if let number = number(in: column) { numbers.append(number) } }
        if numbers.count == last - 1, sqlite3_column_type(statement, last - 1) == SQLITE_BLOB {
            let bytes = Data(sqliteStatement: statement, index: last - 1)
            if number(in: last) == of(numbers, bytes) { return bytes }
        }
        throw Mismatch(number: numbers.first)
    }
}

extension SQLiteLog.Coding where State: Codable, State.Action: Codable {
    /// States and actions as JSON.
    ///
    /// - Parameters:
    ///   - version: The version of the types; raise it whenever they no longer decode what was stored before.
    ///   - migrateState: Makes a state of the bytes of an older version, which it is given.
    ///   - migrateAction: Makes an action of the bytes of an older version, which it is given.
    /// - Returns: The coding. Without a migration, older bytes are decoded as they are, or reported.
    public static func json(
        version: Int = 1,
        migrateState: (@Sendable (_ version: Int, _ bytes: Data) throws -> State)? = nil,
        migrateAction: (@Sendable (_ version: Int, _ bytes: Data) throws -> State.Action)? = nil
    ) -> Self {
        Self(
            version: version,
            encodeState: { try JSONEncoder().encode($0) },
            encodeAction: { try JSONEncoder().encode($0) },
            decodeState: { stored, bytes in
                if stored != version, let migrateState { return try migrateState(stored, bytes) }
                return try JSONDecoder().decode(State.self, from: bytes)
            },
            decodeAction: { stored, bytes in
                if stored != version, let migrateAction { return try migrateAction(stored, bytes) }
                return try JSONDecoder().decode(State.Action.self, from: bytes)
            })
    }
}
