import FluxReplication
import Foundation
import Synchronization

/// The log of one key, in the streams that all keys share.
///
/// It has three subjects: `STREAM.KEY.entry`; `STREAM.KEY.mark`, with a single mark that `end` replaces; and
/// `STREAM.KEY.trimmed`, with the position up to which entries may be gone.
///
/// Thread safety: everything may be used from any thread.
public final class JetStreamKeyLog: FluxSharedLog {
    let logs: JetStreamLog
    let token: String
    /// The subject of the entries.
    let entries: String
    private let ends = Mutex(Ends())
    private let appender: JetStreamAppender
    /// Keeps every line of the protocol within the 4,096 bytes that a server reads by default.
    private static let largestToken = 2_600

    init(_ logs: JetStreamLog, key: String) {
        self.logs = logs
        token = subjectToken(key)
        let entries = "\(logs.stream).\(token).entry"
        self.entries = entries
        appender = JetStreamAppender(limit: min(JetStreamBatch.usualSize, logs.connection.limit - 256)) { bytes in
            do throws(FluxSharedLogError) {
                return .success(try await logs.add(bytes, as: entries))
            } catch {
                return .failure(error)
            }
        }
    }

    private var marks: String { "\(logs.stream).\(token).mark" }
    private var trims: String { "\(logs.stream).\(token).trimmed" }
    private var all: String { "\(logs.stream).\(token).*" }

    /// Refuses a key that is too long: a line that exceeds the server's limit would end the connection, for all keys.
    private func requireKey() throws(FluxSharedLogError) {
        guard token.utf8.count <= Self.largestToken else {
            throw .refused("the key takes \(token.utf8.count) bytes in a subject; the limit is 2,600")
        }
    }

    /// Adds an entry at the end, even if it was added before: readers apply each key once.
    ///
    /// Entries that are added at the same time are sent as one message, which costs little more than one entry.
    /// JetStream's own de-duplication, by `Nats-Msg-Id`, is not used: it forgets after two minutes.
    ///
    /// - Parameters:
    ///   - entry: The entry, at least 512 bytes smaller than the servers' `max_payload`, which is 1 MiB by default.
    ///   - key: Not used.
    /// - Returns: Its position, once a majority of the servers has it.
    /// - Throws: The reason why no such answer arrived.
    public func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        try requireKey()
        // Leaves room for headers and framing.
        guard entry.count <= logs.connection.limit - 512 else {
            throw .refused(
                "\(entry.count) bytes for \(entries) exceed the servers' limit of \(logs.connection.limit)")
        }
        return try await appender.append(entry).get()
    }

    /// Reads all entries after a position, then continues with new ones.
    ///
    /// - Parameters:
    ///   - position: The last position that the caller knows.
    ///   - receive: Receives the next entries.
    /// - Throws: The error that ended the reading; nothing if the task was cancelled.
    public func read(
        after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void
    ) async throws {
        var reader = JetStreamReader(log: self, position: position)
        try await reader.run(receive)
    }

    // MARK: - The end

    // Simultaneous callers share one mark. A lost one, as in an election, delays later callers only for `patience`.
    private struct Ends {
        /// Has started, and may have stored its mark already.
        var running: Task<Result<UInt64, FluxSharedLogError>, Never>?
        /// Has not started, and so serves all callers that arrive before it does.
        var waiting: Task<Result<UInt64, FluxSharedLogError>, Never>?
    }

    /// Returns the position of the last entry, as a majority of the servers has it.
    ///
    /// - Returns: Its position; 0 if there never was an entry.
    /// - Throws: The reason why the servers cannot tell.
    public func end() async throws(FluxSharedLogError) -> UInt64 {
        try requireKey()
        let task = ends.withLock { ends in
            if let waiting = ends.waiting { return waiting }
            let before = ends.running
            let task = Task {
                await before?.ended(within: JetStreamAppender.patience)
                self.ends.withLock { ($0.running, $0.waiting) = ($0.waiting, nil) }
                return await self.findEnd()
            }
            ends.waiting = task
            return task
        }
        guard let end = await task.valueUnlessCancelled else { throw .unavailable("the task was cancelled") }
        return try end.get()
    }

    /// Finds the end in a way that a former leader cannot answer wrongly.
    ///
    /// JetStream answers reads from what a server has, and a server that was paused or cut off may believe for a while
    /// that it is still the leader. So this stores a mark, which takes a majority. Then it looks up the entries before
    /// the mark. Only a server that has the mark can end this search, because it must find a message at the mark's
    /// place or after it.
    private func findEnd() async -> Result<UInt64, FluxSharedLogError> {
        do {
            let mark = try await logs.add([], as: marks, headers: [("Nats-Rollup", "sub")])
            for _ in 0..<50 {
                let last = try await logs.stored(JetStream.Query(last_by_subj: entries), in: logs.stream)
                if let end = try await end(from: last?.seq ?? 0, before: mark) { return .success(end) }
                // The server that answered does not have the mark yet.
                try await Task.sleep(for: .milliseconds(20))
            }
            return .failure(.unavailable("no server that answers has everything that a majority has acknowledged"))
        } catch let error as FluxSharedLogError {
            return .failure(error)
        } catch {
            return .failure(.unavailable("\(error)"))
        }
    }

    /// Searches from an entry's place for the last entry before a mark; returns nil if the server lacks the mark.
    private func end(from last: UInt64, before mark: UInt64) async throws(FluxSharedLogError) -> UInt64? {
        var (end, place) = (JetStreamBatch.end(of: last), last)
        while place < mark {
            let query = JetStream.Query(seq: place + 1, next_by_subj: all)
            guard let next = try await logs.stored(query, in: logs.stream) else { return nil }
            place = next.seq
            if place >= mark { break }
            if next.subject == entries { end = JetStreamBatch.end(of: place) }
            if next.subject == trims { end = max(end, Self.position(in: next)) }
        }
        return end
    }

    // MARK: - Snapshots

    /// Says where the newest snapshot is; its parts are stored before it, and removed after another head replaces it.
    private struct Head: Codable {
        let position: UInt64
        let upload: String
        let parts: Int
        let bytes: Int
    }

    /// Half the size that a message may have, because a part is read back in base64.
    private var partSize: Int { logs.connection.limit / 2 }
    private var head: String { "\(logs.snapshots).\(token).head" }
    private func part(_ upload: String, _ number: String) -> String {
        "\(logs.snapshots).\(token).part.\(upload).\(number)"
    }

    /// Returns all heads.
    ///
    /// There are several if snapshots were saved at the same time; the newest has the highest position.
    private func heads() async throws(FluxSharedLogError) -> [(head: Head, place: UInt64)] {
        try requireKey()
        var heads: [(Head, UInt64)] = []
        for stored in try await logs.all(of: head, in: logs.snapshots) {
            do {
                let head = try JSONDecoder().decode(Head.self, from: stored.data ?? Data())
                guard head.parts >= 0, head.bytes >= 0 else {
                    throw FluxSharedLogError.refused("it claims \(head.parts) parts with \(head.bytes) bytes")
                }
                heads.append((head, stored.seq))
            } catch {
                throw .refused("the message stored as \(head) was not written by this program: \(error)")
            }
        }
        return heads
    }

    /// Returns the newest snapshot.
    ///
    /// - Returns: The snapshot; nil if none was saved.
    /// - Throws: The reason why it could not be read.
    public func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
        for _ in 0..<10 {
            guard let head = try await heads().max(by: { $0.head.position < $1.head.position })?.head else {
                return nil
            }
            var state: [UInt8] = []
            for number in 0..<head.parts {
                let query = JetStream.Query(last_by_subj: part(head.upload, String(number)))
                guard let stored = try await logs.stored(query, in: logs.snapshots) else { break }
                state += stored.data ?? Data()
            }
            if state.count == head.bytes { return FluxSharedSnapshot(position: head.position, state: state) }
            // A part is missing: a newer snapshot has replaced this one in the meantime.
        }
        throw .unavailable("parts of the newest snapshot are missing")
    }

    /// Stores a snapshot, in as many messages as it needs, unless one of this position or a newer one exists.
    ///
    /// - Parameter snapshot: The snapshot.
    /// - Throws: The reason why it was not stored, or may not have been.
    public func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        if try await heads().contains(where: { $0.head.position >= snapshot.position }) { return }
        let upload = UUID().uuidString
        let starts = Array(stride(from: 0, to: snapshot.state.count, by: partSize))
        do throws(FluxSharedLogError) {
            for (number, start) in starts.enumerated() {
                let bytes = Array(snapshot.state[start..<min(start + partSize, snapshot.state.count)])
                _ = try await logs.add(bytes, as: part(upload, String(number)))
            }
        } catch {
            // No head will name these parts, so nothing else would remove them.
            try? await logs.purge(part(upload, "*"), of: logs.snapshots)
            throw error
        }
        let head = Head(
            position: snapshot.position, upload: upload, parts: starts.count, bytes: snapshot.state.count)
        let place = try await logs.add(JetStream.encode(head), as: self.head)

        let heads = try await heads()
        guard Self.newest(heads.map { ($0.head.position, $0.place) }, upTo: place) == snapshot.position else { return }
        try await logs.purge(self.head, of: logs.snapshots, before: place)
        for (head, earlier) in heads where earlier < place {
            try await logs.purge(part(head.upload, "*"), of: logs.snapshots)
        }
    }

    // MARK: - Trimming

    /// Removes the entries up to a position.
    ///
    /// - Parameter position: The position of the last entry that may be removed.
    /// - Throws: The reason why they were not removed.
    public func trim(through position: UInt64) async throws(FluxSharedLogError) {
        let position = min(position, try await end())
        // Readers must learn of it first: one that is behind must not continue as if no entries had existed in between.
        if try await trimmed() < position {
            let place = try await logs.add(Array(String(position).utf8), as: trims)
            let all = try await logs.all(of: trims, in: logs.stream)
            if Self.newest(all.map { (Self.position(in: $0), $0.seq) }, upTo: place) == position {
                try await logs.purge(trims, of: logs.stream, before: place)
            }
        }
        try await logs.purge(entries, of: logs.stream, before: JetStreamBatch.place(after: position))
    }

    /// Returns the position up to which entries may be gone.
    func trimmed() async throws(FluxSharedLogError) -> UInt64 {
        try requireKey()
        return try await logs.all(of: trims, in: logs.stream).map(Self.position(in:)).max() ?? 0
    }

    /// Returns the highest of the positions stored up to a place, or nil if nothing is stored at the place itself.
    ///
    /// Nil means that the server that answered has fallen behind, such as a former leader that believes it still leads.
    /// It may lack others before that place too, so its answer must not lead to their removal.
    static func newest(_ all: [(position: UInt64, place: UInt64)], upTo place: UInt64) -> UInt64? {
        guard all.contains(where: { $0.place == place }) else { return nil }
        return all.filter { $0.place <= place }.map(\.position).max()
    }

    private static func position(in stored: JetStream.StoredAnswer.Stored) -> UInt64 {
        UInt64(String(decoding: stored.data ?? Data(), as: UTF8.self)) ?? 0
    }
}

extension Task where Failure == Never {
    /// The task's value, or nil promptly if the waiting task is cancelled.
    ///
    /// This task continues then, because several tasks may wait for it.
    fileprivate var valueUnlessCancelled: Success? {
        get async {
            let (values, giving) = AsyncStream<Success>.makeStream()
            Task<Void, Never> { giving.yield(await value) }
            for await value in values { return value }
            return nil
        }
    }

    /// Waits until the task ends, but no longer than `patience`.
    fileprivate func ended(within patience: Swift.Duration) async {
        let waiting = Task<Void, Never> { _ = await valueUnlessCancelled }
        let limit = Task<Void, Never> {
            try? await Task<Never, Never>.sleep(for: patience)
            waiting.cancel()
        }
        await waiting.value
        limit.cancel()
    }
}
