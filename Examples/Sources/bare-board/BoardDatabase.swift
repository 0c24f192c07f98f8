import Foundation
import GRDB

/// The actions of a board in an SQLite database, replaced by a snapshot from time to time.
///
/// It promises the same as the log of live-board, by the same settings: what was appended survives a power loss.
final class BoardDatabase: Sendable {
    private let queue: DatabaseQueue

    init(path: String) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { database in
            try database.execute(
                sql: "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        }
        queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.write { database in
            try database.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS actions (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
                    CREATE TABLE IF NOT EXISTS snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), bytes BLOB NOT NULL);
                    """)
        }
    }

    func load() async throws -> BoardState {
        try await queue.read { database in
            let decoder = JSONDecoder()
            var state = BoardState()
            if let bytes = try Data.fetchOne(database, sql: "SELECT bytes FROM snapshot") {
                state = try decoder.decode(BoardState.self, from: bytes)
            }
            let rows = try Data.fetchCursor(
                database, sql: "SELECT bytes FROM actions WHERE number > ? ORDER BY number",
                arguments: [state.revision])
            while let bytes = try rows.next() { _ = state.apply(try decoder.decode(BoardAction.self, from: bytes)) }
            return state
        }
    }

    /// Adds actions in one transaction; `state` is the state after the last of them.
    func append(_ actions: [BoardAction], _ state: BoardState) async throws {
        if actions.isEmpty { return }
        try await queue.write { database in
            let encoder = JSONEncoder()
            let insert = try database.cachedStatement(sql: "INSERT INTO actions VALUES (?, ?)")
            for (number, action) in zip((state.revision - actions.count + 1)..., actions) {
                try insert.execute(arguments: [number, try encoder.encode(action)])
            }
            // About every 1,000 actions, whatever the size of the batches.
            if state.revision / 1_000 > (state.revision - actions.count) / 1_000 {
                try database.execute(
                    sql: "INSERT OR REPLACE INTO snapshot VALUES (1, ?); DELETE FROM actions",
                    arguments: [try encoder.encode(state)])
            }
        }
    }
}
