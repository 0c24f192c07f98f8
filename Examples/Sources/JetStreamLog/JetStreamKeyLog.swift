import FluxReplication
import Foundation
import Synchronization

/// The log of one key, in the streams of all.
///
/// Its subjects are `STREAM.KEY.entry`, `.mark`, of which there is one that `end` replaces, and `.trimmed`, which has the position up to
/// which entries may be gone.
///
/// Thread safety: all of it may be used from any thread.
public final class JetStreamKeyLog: FluxSharedLog {
    let logs: JetStreamLog
    let token: String
    /// The subject of the entries.
    let entries: String
    private let ends = Mutex(Ends())
    private let appender: JetStreamAppender
    /// So that no line of the protocol is longer than the 4,096 bytes that a server reads, unless it is told otherwise.
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

    /// What is too long for a server would end the connection, for all keys.
    private func requireKey() throws(FluxSharedLogError) {
        guard token.utf8.count <= Self.largestToken else {
            throw .refused("the key takes \(token.utf8.count) bytes in a subject; the limit is 2,600")
        }
    }

    /// Adds an entry at the end, again if it was added before: whoever reads applies each key once.
    ///
    /// What is added at the same time goes as one message, which costs little more than one entry.
    /// JetStream's own de-duplication, by `Nats-Msg-Id`, is not used: it forgets after two minutes, and readers apply each key once.
    ///
    /// - Parameters:
    ///   - entry: The entry; smaller by 512 bytes than the servers' `max_payload`, which is 1 MiB unless they are told otherwise.
    ///   - key: Not used.
    /// - Returns: Its position, once a majority of the servers has it.
    /// - Throws: Why there is no such answer.
    public func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        try requireKey()
        // A little is left for what goes around it.
        guard entry.count <= logs.connection.limit - 512 else {
            throw .refused(
                "\(entry.count) bytes for \(entries) exceed the servers' limit of \(logs.connection.limit)")
        }
        return try await appender.append(entry).get()
    }

    /// Reads all entries after a position, and goes on with new ones.
    ///
    /// - Parameters:
    ///   - position: The last that is known.
    ///   - receive: Gets the next entries.
    /// - Throws: What ended it; nothing if the task was cancelled.
    public func read(
        after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void
    ) async throws {
        var reader = JetStreamReader(log: self, position: position)
        try await reader.run(receive)
    }

    // MARK: - The end

    // All who ask at the same time cost one mark. One that is lost, as in an election, holds up nobody for long.
    private struct Ends {
        /// Has begun: it may have marked the end already.
        var running: Task<Result<UInt64, FluxSharedLogError>, Never>?
        /// Will begin: serves all who come before that.
        var waiting: Task<Result<UInt64, FluxSharedLogError>, Never>?
    }

    /// The position of the last entry, as a majority of the servers has it.
    ///
    /// - Returns: Its position; 0 where there never was one.
    /// - Throws: Why the servers cannot tell.
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

    /// Asks no leader a question that one could answer wrongly who is not the leader any more.
    ///
    /// JetStream answers reads from what a server has, and one that was paused or cut off may take itself for the leader for a
    /// while. So a mark is stored, which takes a majority. The entries before it are then looked up in a way that only a server
    /// that has the mark can end: it has to find something at the mark's place or behind it.
    private func findEnd() async -> Result<UInt64, FluxSharedLogError> {
        do {
            let mark = try await logs.add([], as: marks, headers: [("Nats-Rollup", "sub")])
            for _ in 0..<50 {
                let last = try await logs.stored(JetStream.Query(last_by_subj: entries), in: logs.stream)
                if let end = try await end(from: last?.seq ?? 0, before: mark) { return .success(end) }
                // Who answered has not got that far yet.
                try await Task.sleep(for: .milliseconds(20))
            }
            return .failure(.unavailable("no server that answers has everything that a majority has acknowledged"))
        } catch let error as FluxSharedLogError {
            return .failure(error)
        } catch {
            return .failure(.unavailable("\(error)"))
        }
    }

    /// Goes on from the place of an entry to the last before a mark; nil where the server does not have the mark.
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

    /// Says where the newest snapshot is: its parts are stored before it, and go after another has replaced it.
    private struct Head: Codable {
        let position: UInt64
        let upload: String
        let parts: Int
        let bytes: Int
    }

    /// Half of what a message may have: a part comes back in base64.
    private var partSize: Int { logs.connection.limit / 2 }
    private var head: String { "\(logs.snapshots).\(token).head" }
    private func part(_ upload: String, _ number: String) -> String {
        "\(logs.snapshots).\(token).part.\(upload).\(number)"
    }

    /// All heads, of which there are several where some have saved at the same time; the newest is that of the last entry.
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

    /// The newest snapshot.
    ///
    /// - Returns: The snapshot; nil where none was saved.
    /// - Throws: Why it could not be read.
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
            // A newer one has taken its place meanwhile.
        }
        throw .unavailable("parts of the newest snapshot are missing")
    }

    /// Stores a snapshot, in as many messages as it takes, unless a newer one is there.
    ///
    /// - Parameter snapshot: The snapshot.
    /// - Throws: Why it was not stored, or may not have been.
    public func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        if try await heads().contains(where: { $0.head.position >= snapshot.position }) { return }
        let upload = UUID().uuidString
        let starts = Array(stride(from: 0, to: snapshot.state.count, by: partSize))
        for (number, start) in starts.enumerated() {
            let bytes = Array(snapshot.state[start..<min(start + partSize, snapshot.state.count)])
            _ = try await logs.add(bytes, as: part(upload, String(number)))
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

    // MARK: - What may go

    /// Removes the entries up to a position.
    ///
    /// - Parameter position: The position of the last that may go.
    /// - Throws: Why they were not removed.
    public func trim(through position: UInt64) async throws(FluxSharedLogError) {
        let position = min(position, try await end())
        // First of all readers have to know: one that is behind must not go on as if nothing had been there.
        if try await trimmed() < position {
            let place = try await logs.add(Array(String(position).utf8), as: trims)
            let all = try await logs.all(of: trims, in: logs.stream)
            if Self.newest(all.map { (Self.position(in: $0), $0.seq) }, upTo: place) == position {
                try await logs.purge(trims, of: logs.stream, before: place)
            }
        }
        try await logs.purge(entries, of: logs.stream, before: JetStreamBatch.place(after: position))
    }

    /// Up to which position entries may be gone.
    func trimmed() async throws(FluxSharedLogError) -> UInt64 {
        try requireKey()
        return try await logs.all(of: trims, in: logs.stream).map(Self.position(in:)).max() ?? 0
    }

    /// The highest of some positions, by the places where they are stored, up to a place; nil where nothing is at the place itself.
    ///
    /// Then a server was asked that has fallen behind, as one that takes itself for the leader and is not any more. It may lack others
    /// before it too, so none of them may go for what it says.
    static func newest(_ all: [(position: UInt64, place: UInt64)], upTo place: UInt64) -> UInt64? {
        guard all.contains(where: { $0.place == place }) else { return nil }
        return all.filter { $0.place <= place }.map(\.position).max()
    }

    private static func position(in stored: JetStream.StoredAnswer.Stored) -> UInt64 {
        UInt64(String(decoding: stored.data ?? Data(), as: UTF8.self)) ?? 0
    }
}

extension Task where Failure == Never {
    /// Its value; nil, and soon, where the task that waits for it is cancelled: several may, so this one goes on.
    fileprivate var valueUnlessCancelled: Success? {
        get async {
            let (values, giving) = AsyncStream<Success>.makeStream()
            Task<Void, Never> { giving.yield(await value) }
            for await value in values { return value }
            return nil
        }
    }

    /// Waits for its end, but no longer than that.
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
