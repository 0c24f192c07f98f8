import FluxCore
import FluxPersistence
import Foundation
import GRDB

/// A log of actions in an SQLite database: a transaction for each batch, and a snapshot now and then.
///
/// Copy this file into a target that depends on FluxPersistence and GRDB 7; it needs nothing else.
///
/// ```swift
/// let log = try SQLiteLog<Todo>(path: "/var/lib/todo/log.sqlite", coding: .json())
/// let store = FluxStore(initialState: Todo(), log: log)
/// try await store.dispatch(durably: .add("milk"))  // on disk when it returns
/// ```
///
/// The database is in WAL mode with `synchronous = FULL`: a transaction that has returned survives a loss of power. It is
/// locked for as long as it is open, so that it belongs to one store of one process. A database of something else is
/// refused as it is. What it cannot read it reports and leaves as it is: a store does not write to a log that it could
/// not read.
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

        /// Makes a coding.
        ///
        /// - Parameters:
        ///   - version: The version of what the first two make.
        ///   - encodeState: Makes bytes of a state.
        ///   - encodeAction: Makes bytes of an action.
        ///   - decodeState: Makes a state of the version that is stored, and the raw bytes.
        ///   - decodeAction: Makes an action of the version that is stored, and the raw bytes.
        public init(
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
    }

    /// The database holds a version that comes after the one the program knows, so it is refused as it is.
    public struct Newer: Error, CustomStringConvertible {
        /// The version in the database.
        public let stored: Int
        /// The version of the coding.
        public let known: Int
        /// One line that says so.
        public var description: String { "it is of version \(stored), and this program knows \(known)" }
    }

    /// The database is of another program, or of another part of this one, so it is refused as it is.
    public struct Foreign: Error, CustomStringConvertible {
        /// One line that says so.
        public var description: String { "it is a database of something else" }
    }

    /// By this in its header a database is known as one of these.
    private static var application: Int { 0x466C_7578 }
    private let path: String
    private let coding: Coding
    private let database: DatabaseQueue

    /// Opens a database, and makes it if there is none.
    ///
    /// - Parameters:
    ///   - path: The file; its folder has to exist.
    ///   - coding: How states and actions become bytes, and back.
    ///   - patience: How long to wait, in seconds, for another who has it open, such as a store that is just going.
    /// - Throws: ``Failure``, with the path.
    public init(path: String, coding: Coding, patience: Double = 5) throws {
        self.path = path
        self.coding = coding
        var configuration = Configuration()
        configuration.journalMode = .wal
        configuration.busyMode = .timeout(patience)
        configuration.prepareDatabase { database in
            // First of all: even the journal mode would be written into it.
            let application = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
            let isEmpty = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") == 0
            guard application == Self.application || application == 0 && isEmpty else { throw Foreign() }
            // Two stores would both number their actions on, and each lose what the other has acknowledged.
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL")
        }
        do {
            database = try DatabaseQueue(path: path, configuration: configuration)
            try database.write { database in
                try database.execute(
                    sql: """
                        PRAGMA application_id = \(Self.application);
                        CREATE TABLE IF NOT EXISTS actions
                            (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, bytes BLOB NOT NULL);
                        CREATE TABLE IF NOT EXISTS snapshot
                            (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL,
                             revision INTEGER NOT NULL, version INTEGER NOT NULL, bytes BLOB NOT NULL);
                        """)
            }
        } catch {
            throw Failure(path: path, reason: error)
        }
    }

    /// Reads the snapshot and the actions after it.
    ///
    /// - Returns: What is stored.
    /// - Throws: ``Failure``, with the path.
    public func load() async throws -> FluxLogContents<State> {
        try await perform { database, coding in
            let newest = try Int.fetchOne(
                database,
                sql: "SELECT max(version) FROM (SELECT version FROM actions UNION SELECT version FROM snapshot)")
            if let newest, newest > coding.version { throw Newer(stored: newest, known: coding.version) }

            let row = try Row.fetchOne(database, sql: "SELECT number, revision, version, bytes FROM snapshot")
            let snapshot = try row.map { row in
                FluxSnapshot<State>(
                    state: try coding.decodeState(row[2], row[3]),
                    number: UInt64(bitPattern: row[0] as Int64), revision: UInt64(bitPattern: row[1] as Int64))
            }
            var entries: [FluxLogEntry<State.Action>] = []
            let rows = try Row.fetchCursor(
                database, sql: "SELECT number, version, bytes FROM actions WHERE number > ? ORDER BY number",
                arguments: [Int64(snapshot?.number ?? 0)])
            while let row = try rows.next() {
                let number = UInt64(bitPattern: row[0] as Int64)
                entries.append(FluxLogEntry(number: number, action: try coding.decodeAction(row[1], row[2])))
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
            // One that was reported as failed may be there all the same.
            let insert = try database.cachedStatement(
                sql: "INSERT OR IGNORE INTO actions VALUES (?, \(coding.version), ?)")
            for entry in entries {
                try insert.execute(arguments: [Int64(entry.number), try coding.encodeAction(entry.action)])
            }
        }
    }

    /// Stores a snapshot and drops what it covers, in one transaction.
    ///
    /// - Parameter snapshot: A state, and the number of the last action in it.
    /// - Throws: ``Failure``, with the path.
    public func compact(_ snapshot: FluxSnapshot<State>) async throws {
        try await perform { database, coding in
            try database.execute(
                sql: "INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?, ?)",
                arguments: [
                    Int64(snapshot.number), Int64(snapshot.revision), coding.version,
                    try coding.encodeState(snapshot.state),
                ])
            try database.execute(sql: "DELETE FROM actions WHERE number <= ?", arguments: [Int64(snapshot.number)])
        }
    }

    /// Runs a body in a transaction.
    private func perform<Value: Sendable>(
        _ body: @escaping @Sendable (Database, Coding) throws -> Value
    ) async throws -> Value {
        do {
            return try await database.write { [coding] database in try body(database, coding) }
        } catch {
            throw Failure(path: path, reason: error)
        }
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
