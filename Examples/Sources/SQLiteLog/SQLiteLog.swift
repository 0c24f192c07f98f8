import FluxCore
import FluxPersistence
import Foundation
import GRDB
import GRDBSQLite

/// A log of actions in an SQLite database: a transaction for each batch, and a snapshot from time to time.
///
/// Copy this file into a target that depends on FluxCore, FluxPersistence and GRDB 7, with its products `GRDB` and
/// `GRDBSQLite`. It needs nothing else.
///
/// ```swift
/// let log = try SQLiteLog<Todo>(path: "/var/lib/todo/log.sqlite", coding: .json())
/// let store = FluxStore(initialState: Todo(), log: log)
/// try await store.dispatch(durably: .add("milk"))  // on disk when it returns
/// ```
///
/// The database is in WAL mode with `synchronous = FULL`: a transaction that has returned survives a power loss. The
/// database is locked while it is open, so it belongs to one store of one process. A database of another program is
/// refused and left unchanged. If the file is deleted, moved or replaced while it is open, nothing is acknowledged from
/// then on. The `-wal` file is not checked; leave it alone. Data that cannot be read is reported and left unchanged: a
/// store does not write to a log that it could not read.
///
/// Consecutive actions share a row of up to a thousand bytes. Writing is as fast as with a row for each action, because
/// a page goes to the disk as a whole, and reading is many times faster. Each row has a checksum, and the pages are
/// checked before they are read, so damaged data is not mistaken for what was written.
///
/// Thread safety: everything may be used from any thread; the database handles one call at a time.
public final class SQLiteLog<State: FluxState>: FluxLog {
    /// How to encode states and actions, and how to decode bytes of this or an older version.
    public struct Coding: Sendable {
        /// The version of the bytes from `encodeState` and `encodeAction`; bytes of a later version are refused.
        public var version: Int
        /// Encodes a state.
        public var encodeState: @Sendable (State) throws -> Data
        /// Encodes an action.
        public var encodeAction: @Sendable (State.Action) throws -> Data
        /// Decodes a state from the stored version, which is this or an older one, and the raw bytes.
        public var decodeState: @Sendable (_ version: Int, _ bytes: Data) throws -> State
        /// Decodes an action from the stored version, which is this or an older one, and the raw bytes.
        public var decodeAction: @Sendable (_ version: Int, _ bytes: Data) throws -> State.Action
        /// Adds an entry; specialised where the coding is created, because generic code here would look up types each
        /// time.
        @usableFromInline let append: @Sendable (inout [FluxLogEntry<State.Action>], UInt64, State.Action) -> Void

        /// Creates a coding.
        ///
        /// - Parameters:
        ///   - version: The version of the bytes from the two encoding closures.
        ///   - encodeState: Encodes a state.
        ///   - encodeAction: Encodes an action.
        ///   - decodeState: Decodes a state from the stored version and the raw bytes.
        ///   - decodeAction: Decodes an action from the stored version and the raw bytes.
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

    /// An error of the database at a path.
    public struct Failure: Error, CustomStringConvertible {
        /// The path of the database.
        public let path: String
        /// The error from SQLite or the coding.
        public let reason: any Error
        /// One line that begins with the path.
        public var description: String { "\(path): \(reason)" }
        /// Whether the disk failed an operation, such as a full one: that may pass, and the database may be intact.
        public var isOfDisk: Bool {
            let code = (reason as? DatabaseError)?.resultCode
            return [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_READONLY].contains(code)
        }
    }

    /// The database has a later version than the program knows; it is refused and left unchanged.
    public struct Newer: Error, CustomStringConvertible {
        /// The version in the database.
        public let stored: Int
        /// The version of the coding.
        public let known: Int
        /// One line with both versions.
        public var description: String { "the database has version \(stored), but this program knows only \(known)" }
    }

    /// The database belongs to another program, or to another part of this one; it is refused and left unchanged.
    public struct Foreign: Error, CustomStringConvertible {
        /// One line with this message.
        public var description: String { "the database belongs to something else" }
    }

    /// Another log of this or another process has the database open, and a database belongs to one log.
    public struct InUse: Error, CustomStringConvertible {
        /// One line that says what to do.
        public var description: String {
            "the database is locked: another store or process has it open; close that one, or pass a longer `patience`"
        }
    }

    /// The path is empty or has a zero byte: SQLite would create a temporary database, or one of another name.
    public struct NotAPath: Error, CustomStringConvertible {
        /// One line with this message.
        public var description: String { "a path must not be empty or contain a zero byte" }
    }

    /// The file was deleted, moved or replaced while the database was open: what is written to it would be lost.
    public struct Moved: Error, CustomStringConvertible {
        /// One line that says what to do.
        public var description: String {
            "the file was deleted, moved or replaced while it was open; put it back, or reopen the log"
        }
    }

    /// The database or one of its rows is not what was written.
    public struct Damaged: Error, CustomStringConvertible {
        /// One line that says where the damage is.
        public let description: String
    }

    /// The application ID in the header by which such a database is recognised.
    private static var application: Int { 0x466C_7578 }
    private let path: String
    private let coding: Coding
    private let database: DatabaseQueue

    /// Opens a database on a new thread, and creates it if there is none.
    ///
    /// Opening writes to the disk, and may wait until another log has closed the database. On its own thread this
    /// blocks none of the threads that run tasks. Closing may write too, and happens where the last reference is
    /// released.
    ///
    /// - Parameters:
    ///   - path: The file, with any name; its folder must exist.
    ///   - coding: How to encode and decode states and actions.
    ///   - patience: How long to wait, in seconds, for another log that has it open, such as that of a store that is
    ///     just ending.
    /// - Returns: The log.
    /// - Throws: ``Failure``, with the path.
    public static func opened(path: String, coding: Coding, patience: Double = 5) async throws -> SQLiteLog {
        try await withCheckedThrowingContinuation { continuation in
            // A global queue would use the threads that run tasks.
            DispatchQueue(label: "SQLiteLog").async {
                continuation.resume(with: Result { try SQLiteLog(path: path, coding: coding, patience: patience) })
            }
        }
    }

    /// Opens a database on this thread, which waits for the disk, and creates it if there is none.
    ///
    /// A database from an older version of this file is converted, after which the older program refuses it. Converting
    /// a million actions takes some seconds.
    ///
    /// - Parameters:
    ///   - path: The file, with any name; its folder must exist.
    ///   - coding: How to encode and decode states and actions.
    ///   - patience: How long to wait, in seconds, for another log that has it open, such as that of a store that is
    ///     just ending.
    /// - Throws: ``Failure``, with the path.
    public init(path: String, coding: Coding, patience: Double = 5) throws {
        self.path = path
        self.coding = coding
        var configuration = Configuration()
        configuration.busyMode = .timeout(patience)
        configuration.prepareDatabase { database in
            // Before anything else: setting the journal mode would already write to the file.
            let application = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
            let isEmpty = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") == 0
            guard application == Self.application || application == 0 && isEmpty else { throw Foreign() }
            // Locked, because two stores would both continue the numbering, and each would lose what the other has
            // acknowledged. WAL mode is set here, because GRDB's own way to set it ends with `synchronous = NORMAL`.
            try database.execute(
                sql: "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        }
        do {
            if path.isEmpty || path.utf8.contains(0) { throw NotAPath() }
            // With the prefix `./`, a name such as `:memory:` is that of a file.
            database = try DatabaseQueue(path: path.hasPrefix("/") ? path : "./" + path, configuration: configuration)
            try database.write { database in
                // Writes a page each time. Its sync covers what another process has committed but, being stopped, not
                // yet synced.
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

    /// Adds checksums to the rows of an older program that had none.
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

    /// Creates the table of actions, and converts that of an older program, which had a row for each action.
    private static func makeRows(in database: Database, known: Int) throws {
        let isOlder = try database.tableExists("actions") && has("number", "actions", database)
        if isOlder { try database.execute(sql: "ALTER TABLE actions RENAME TO single_actions") }
        // The columns are renamed, so that an older program gets an error and does not take a row for an action.
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

    /// Throws if the database is damaged: checksums show that rows are whole, but not that a row is missing.
    private static func requireWhole(_ database: Database) throws {
        // Without "main" SQLite would create a temporary database to check that too, and keep 90 KB for it.
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
            // One array for all rows, because creating one takes longer than reading a row.
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
            // Looked up once, not for each of a million actions; the cursor keeps the statement.
            let (statement, decode, append) = (query.sqliteStatement, coding.decodeAction, coding.append)
            while try rows.next() != nil {
                let bytes = try SQLiteLogChecksum.contents(of: statement, &numbers)
                // Only after the checksum was checked: the number that says the row is covered may itself be damaged.
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

    /// Stores a snapshot and deletes the actions that it covers, in one transaction.
    ///
    /// - Parameter snapshot: A state, and the number of the last action that it includes.
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
            // A row that continues after the snapshot stays; loading skips its covered actions.
            try database.execute(
                sql: "DELETE FROM actions WHERE rowid <= ?1 AND last <= ?1", arguments: [numbers[0]])
        }
    }

    private static func requireInPlace(_ database: Database) throws {
        var hasMoved: Int32 = 0
        sqlite3_file_control(database.sqliteConnection, nil, SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        if hasMoved != 0 { throw Moved() }
    }

    /// Runs a body in a transaction, which is rolled back if the file is not where it was.
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
                // Checks again: the file may have gone before the commit, and the caller may acknowledge what this
                // returns.
                try Self.requireInPlace(database)
                return value!
            }
        } catch {
            throw Failure(path: path, reason: error)
        }
    }
}

/// Consecutive actions as the bytes of a row; each is preceded by its length in four bytes, the lowest first.
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
            // Its checksum is right, so something else has written it.
            if offset != bytes.count || number &- 1 != last || bytes.isEmpty {
                throw SQLiteLogChecksum.Mismatch(number: first)
            }
        }
    }
}

/// Adds actions at the end of the table, to its last row while that is short enough.
struct SQLiteLogWriter {
    /// The most bytes in a row: four such rows fill a page, and longer rows would fill less of it.
    private static let most = 980
    private let insert: Statement
    /// The number of the last action.
    private var last: Int64?
    /// The last row, including actions not written yet; nil if the stored row is longer than rows become here.
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
            // A damaged row must not get a checksum that says it is whole.
            let bytes = try SQLiteLogChecksum.contents(of: query.sqliteStatement, &numbers)
            row = SQLiteLogRow(first: numbers[0], last: numbers[1], version: numbers[2], bytes: bytes)
        }
        // A longer row has a single action, and its number.
        last = try row?.last ?? Int64.fetchOne(database.cachedStatement(sql: "SELECT max(rowid) FROM actions"))
    }

    /// Adds an action unless it is there already: an append that was reported as failed may have succeeded.
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

    /// Writes the actions that were added.
    mutating func finish() throws {
        guard let row, !isWritten else { return }
        let checksum = SQLiteLogChecksum.of([row.first, row.last, row.version], row.bytes)
        try insert.execute(arguments: [row.first, row.last, row.version, row.bytes, checksum])
        isWritten = true
    }
}

/// The checksum of a row, 64 bits of FNV-1a, over its numbers and its bytes.
enum SQLiteLogChecksum {
    /// A row that differs from what was written.
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

    /// Returns the bytes of a statement's current row, and its numbers in `numbers`, after checking the checksum.
    ///
    /// The row ends with its bytes and its checksum; all columns before them are numbers. This reads from the statement
    /// itself, because a restart reads a million rows, and GRDB's `Row` takes five times as long.
    static func contents(of statement: SQLiteStatement, _ numbers: inout [Int64]) throws -> Data {
        numbers.removeAll(keepingCapacity: true)
        // The type must be checked: SQLite accepts any type in any column.
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
    ///   - migrateState: Decodes a state from an older version and its bytes.
    ///   - migrateAction: Decodes an action from an older version and its bytes.
    /// - Returns: The coding. Without a migration, older bytes are decoded like current ones, or reported.
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
