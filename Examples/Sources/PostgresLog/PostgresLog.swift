import Dispatch
import FluxReplication
import Synchronization

/// Shared logs in an existing PostgreSQL database: one table of entries, and a row for each key.
///
/// An append locks the row of its key until it is committed. So positions become visible in order, unlike those of a
/// sequence, and no reader skips one. `NOTIFY` wakes the readers.
///
/// A call without an answer fails after 8 s, plus 1 s for each MB that it may have to send or receive. If that is not
/// known, as for a read, a trim or a start, it is 4.5 minutes. A reader that waits for new entries sends nothing, so it
/// does not notice that a server has stopped whose machine still responds; the next call does.
///
/// Thread safety: everything may be used from any thread.
public final class PostgresLog: Sendable {
    fileprivate let name: String
    fileprivate let writer: Session
    fileprivate let reader: Session
    let bell: Bell

    /// Connects, and creates the tables if they do not exist.
    ///
    /// At each start the user needs the right to create in the schema, even if the tables exist, and has to own the
    /// function whose name ends with `_append`, or be a member of its owner, because the function is created again. So
    /// it is best if all nodes connect as one user. Since PostgreSQL 15, only the database's owner may create in the
    /// schema `public`, unless the right is granted, as with `GRANT CREATE ON SCHEMA public TO boards`.
    ///
    /// - Parameters:
    ///   - address: A connection string of libpq, such as `host=127.0.0.1 dbname=boards` or a `postgres://` address.
    ///     For several servers add `target_session_attrs=read-write`, which selects the one that accepts writes. Unless
    ///     the address says otherwise, `connect_timeout=5 keepalives_idle=5 keepalives_interval=2 keepalives_count=3
    ///     tcp_user_timeout=10000` are added: with the defaults of most systems, it takes a quarter of an hour to
    ///     notice that a machine or network has vanished, and two hours if the connection only listens. Several servers
    ///     need `synchronous_standby_names`, and a server must be fenced before another one takes over from it:
    ///     otherwise acknowledged entries are lost.
    ///   - name: The prefix of the tables' names: 1 to 55 lower-case letters, digits and `_`, and no digit first.
    /// - Throws: The reason: refused if waiting will not correct the address, the database, the user or the name.
    public init(_ address: String, name: String) async throws(FluxSharedLogError) {
        // A name in PostgreSQL has at most 63 bytes, including the suffix `_entries`.
        guard name.wholeMatch(of: /[a-z_][a-z0-9_]{0,54}/) != nil else {
            throw .refused(
                "\"\(name)\" is not a valid table prefix: use 1 to 55 of a-z, 0-9 and _, no digit first")
        }
        self.name = name
        (writer, reader) = (Session(address), Session(address))
        bell = Bell(Session(address), channel: name)
        _ = try await writer.run(
            """
            SELECT pg_advisory_xact_lock(hashtext('\(name)'));
            CREATE TABLE IF NOT EXISTS \(name)_keys (key text PRIMARY KEY, last bigint NOT NULL DEFAULT 0,
                trimmed bigint NOT NULL DEFAULT 0, position bigint NOT NULL DEFAULT 0, snapshot bytea);
            CREATE TABLE IF NOT EXISTS \(name)_entries (key text NOT NULL, position bigint NOT NULL, id bytea NOT NULL,
                entry bytea NOT NULL, PRIMARY KEY (key, position), UNIQUE (key, id));
            CREATE OR REPLACE FUNCTION \(name)_append(k text, ids bytea[], entries bytea[]) RETURNS SETOF bigint AS $$
            DECLARE place bigint; newest bigint; BEGIN
                INSERT INTO \(name)_keys (key) VALUES (k) ON CONFLICT DO NOTHING;
                SELECT last INTO newest FROM \(name)_keys WHERE key = k FOR UPDATE;
                FOR i IN 1 .. array_length(ids, 1) LOOP
                    SELECT position INTO place FROM \(name)_entries WHERE key = k AND id = ids[i];
                    IF NOT FOUND THEN
                        newest := newest + 1; place := newest;
                        INSERT INTO \(name)_entries VALUES (k, place, ids[i], entries[i]);
                    END IF; RETURN NEXT place;
                END LOOP;
                UPDATE \(name)_keys SET last = newest WHERE key = k AND last < newest;
                PERFORM pg_notify('\(name)', k); END $$ LANGUAGE plpgsql;
            """)
        bell.listen()
    }

    /// Returns the log of one key.
    ///
    /// - Parameter key: Any text without a zero byte, of at most 2,600 bytes, so that it fits into an index.
    /// - Returns: Its log.
    public func log(for key: String) -> PostgresKeyLog { PostgresKeyLog(self, key: key) }
}

/// The log of one key, in the tables that all keys share.
///
/// Thread safety: everything may be used from any thread.
public final class PostgresKeyLog: FluxSharedLog {
    private typealias Append = (id: [UInt8], entry: [UInt8], answer: Answer<UInt64>)

    private let log: PostgresLog
    private let key: String
    private let appends = Mutex<[Append]>([])
    private static let largestKey = 64
    /// The most entries in a transaction, and in a portion of a trim: both lock the row of the key.
    private static let most = 1_000
    /// The bytes after which a read adds no further entry: all of them are in memory at once.
    private static let enough = 4 << 20

    fileprivate init(_ log: PostgresLog, key: String) { (self.log, self.key) = (log, key) }

    /// Adds an entry at the end; entries that wait at the same time become one transaction.
    ///
    /// - Parameters:
    ///   - entry: The entry, of at most 256 MB.
    ///   - key: Identifies a repetition, for as long as the entry exists; at most 64 bytes.
    /// - Returns: Its position, once it is committed.
    /// - Throws: The reason why it was not committed, or may not have been.
    public func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        // Checked here, so that entries of other callers are not refused with it.
        guard entry.count <= Session.largest else {
            throw .refused("the entry has \(entry.count) bytes; the limit is 256 MB")
        }
        guard key.utf8.count <= Self.largestKey else {
            throw .refused("the entry's key has \(key.utf8.count) bytes; the limit is \(Self.largestKey)")
        }
        let answer = Answer<UInt64>()
        appends.withLock { $0.append((Array(key.utf8), entry, answer)) }
        log.writer.queue.async { self.commit() }
        do {
            return try await answer.get(sending: entry.count)
        } catch {
            // A caller that was cancelled, or has run out of time, does not leave its entry waiting for the server. If
            // many callers end at once, the first one removes all their entries.
            appends.withLock { $0.removeAll { $0.answer.isGiven } }
            throw error
        }
    }

    /// Commits entries that wait, as many as fit into one transaction.
    ///
    /// It is called once for each entry, on the writer's queue. So while a transaction is under way entries gather, and
    /// most calls find that an earlier one has taken theirs.
    private func commit() {
        let batch = appends.withLock { appends in
            var size = 0
            let fitting = appends.prefix(Self.most).prefix { append in
                size += append.id.count + append.entry.count
                return size <= Session.largest + Self.largestKey
            }
            appends.removeFirst(fitting.count)
            return Array(fitting)
        }
        if batch.isEmpty { return }
        do throws(FluxSharedLogError) {
            let rows = try log.writer.perform(
                "SELECT \(log.name)_append($1, $2, $3)",
                [keyParameter(), binary(batch.map(\.id)), binary(batch.map(\.entry))])
            guard rows.count == batch.count else {
                throw .unavailable("only \(rows.count) of \(batch.count) appends were answered")
            }
            for (append, row) in zip(batch, rows) { append.answer.give(.success(row[0].number)) }
        } catch {
            for append in batch { append.answer.give(.failure(error)) }
        }
    }

    /// Reads all entries after a position, then continues with new ones.
    ///
    /// - Parameters:
    ///   - position: The last position that the caller knows.
    ///   - receive: Receives the next entries.
    /// - Throws: The error that ended the reading; if the task was cancelled, nothing, or that the log is unavailable.
    public func read(
        after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void
    ) async throws {
        var position = position
        var rings = log.bell.rings(for: key).makeAsyncIterator()
        while !Task.isCancelled {
            // One statement sees one moment: either an entry, or that it is gone. The server knows an entry's length
            // without reading it.
            let rows = try await log.reader.run(
                """
                SELECT trimmed, e.position, e.entry FROM \(log.name)_keys k LEFT JOIN LATERAL (
                    SELECT position, entry, sum(length(entry)) OVER (ORDER BY position) - length(entry) AS before FROM (
                        SELECT position, entry FROM \(log.name)_entries
                        WHERE key = k.key AND position > $2 ORDER BY position LIMIT 500
                    ) next
                ) e ON e.before < \(Self.enough) WHERE k.key = $1 ORDER BY e.position
                """, [keyParameter(), binary(Int64(clamping: position))])
            if let trimmed = rows.first?[0].number, trimmed > position {
                throw FluxSharedLogError.trimmed(through: trimmed)
            }
            let entries = rows.compactMap { row in row[2].map { FluxSharedEntry(position: row[1].number, entry: $0) } }
            if let last = entries.last {
                try await receive(entries)
                position = last.position
            } else {
                if let trouble = log.bell.trouble.withLock({ $0 }) { throw trouble }
                await rings.next()
            }
        }
    }

    /// Returns the position of the last entry, as the server that accepts writes has it.
    ///
    /// - Returns: Its position; 0 if there never was an entry.
    /// - Throws: The reason why the server cannot tell.
    public func end() async throws(FluxSharedLogError) -> UInt64 {
        let rows = try await log.reader.run(
            "SELECT last FROM \(log.name)_keys WHERE key = $1", [keyParameter()], sending: 0)
        return rows.first?[0].number ?? 0
    }

    /// Returns the newest snapshot.
    ///
    /// - Returns: The snapshot; nil if none was saved.
    /// - Throws: The reason why it could not be read.
    public func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
        let rows = try await log.reader.run(
            "SELECT position, snapshot FROM \(log.name)_keys WHERE key = $1", [keyParameter()])
        guard let row = rows.first, let state = row[1] else { return nil }
        return FluxSharedSnapshot(position: row[0].number, state: state)
    }

    /// Stores a snapshot, unless one of this position or a newer one exists.
    ///
    /// - Parameter snapshot: The snapshot.
    /// - Throws: The reason why it was not stored, or may not have been.
    public func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        _ = try await log.writer.run(
            """
            INSERT INTO \(log.name)_keys AS k (key, position, snapshot) VALUES ($1, $2, $3)
            ON CONFLICT (key) DO UPDATE SET position = EXCLUDED.position, snapshot = EXCLUDED.snapshot
            WHERE k.snapshot IS NULL OR k.position < EXCLUDED.position
            """, [keyParameter(), binary(Int64(clamping: snapshot.position)), snapshot.state],
            sending: snapshot.state.count)
    }

    /// Removes the entries up to a position.
    ///
    /// - Parameter position: The position of the last entry that may be removed.
    /// - Throws: The reason why they were not removed.
    public func trim(through position: UInt64) async throws(FluxSharedLogError) {
        var removed: UInt64
        // In portions, in the order of the positions, which have no gaps: an append waits for one portion at most.
        repeat {
            let rows = try await log.writer.run(
                """
                WITH k AS (UPDATE \(log.name)_keys SET trimmed = greatest(trimmed, least($2, last))
                    WHERE key = $1 RETURNING trimmed),
                first AS (SELECT min(position) AS position FROM \(log.name)_entries WHERE key = $1),
                gone AS (DELETE FROM \(log.name)_entries USING k, first WHERE key = $1 AND
                    \(log.name)_entries.position <= least(k.trimmed, first.position + \(Self.most - 1)) RETURNING 1)
                SELECT count(*) FROM gone
                """, [keyParameter(), binary(Int64(clamping: position))])
            removed = rows.first?[0].number ?? 0
        } while removed == Self.most
    }

    /// The key as a parameter of a statement.
    private func keyParameter() throws(FluxSharedLogError) -> [UInt8] {
        guard !key.utf8.contains(0) else { throw .refused("the key contains a zero byte") }
        guard key.utf8.count <= 2_600 else { throw .refused("the key has \(key.utf8.count) bytes; the limit is 2,600") }
        return Array(key.utf8)
    }
}
