import FluxReplication
import Foundation

/// Shared logs in NATS JetStream: one stream for the entries of all keys, and one for their snapshots.
///
/// ```swift
/// let boards = try await JetStreamLog(servers: ["nats://10.0.0.1:4222", "nats://10.0.0.2:4222"], stream: "boards")
/// let log = boards.log(for: "b1")
/// let position = try await log.append(Array("hello".utf8), key: "client 7, 1")
/// ```
///
/// Each key has its own subjects in the stream, so that a reader of one is sent nothing of the others. The README beside this file
/// says what is relied on.
///
/// Thread safety: all of it may be used from any thread.
public final class JetStreamLog: Sendable {
    let connection: NatsConnection
    let stream: String
    /// The stream of the snapshots.
    var snapshots: String { stream + "-snapshots" }

    /// The addresses of servers as they may be shown: without the names, passwords and tokens in them.
    public static func shown(_ servers: [String]) -> String {
        var addresses: [String] = []
        for part in servers {
            let isAddress = part.hasPrefix("nats://") || part.hasPrefix("tls://")
            // Else a comma may have cut it out of a password.
            if isAddress || addresses.isEmpty {
                addresses.append(part)
            } else {
                addresses[addresses.count - 1] += ",\(part)"
            }
        }
        return addresses.map { server in
            guard let at = server.lastIndex(of: "@") else { return server }
            let scheme = server.range(of: "://").map { server[..<$0.upperBound] } ?? ""
            return String(scheme + server[server.index(after: at)...])
        }.joined(separator: ", ")
    }

    /// Connects, and makes the streams if they are not there.
    ///
    /// - Parameters:
    ///   - servers: Addresses, as `nats://127.0.0.1:4222`. There is no connection to any other, whatever the servers say.
    ///   - stream: The name of the stream: letters, digits, `-` and `_`.
    ///   - replicas: How many servers have every entry: 1, 3 or 5. A stream that is there has to have as many.
    ///   - timeout: How long to wait for a server's answer before an operation is unavailable.
    /// - Throws: ``FluxSharedLogError/unavailable(_:)`` where no server answers or there is no leader, and may be tried again;
    ///   ``FluxSharedLogError/refused(_:)`` where a stream cannot be as it is asked for.
    public init(
        servers: [String], stream: String, replicas: Int = 3, timeout: Swift.Duration = .seconds(5)
    ) async throws(FluxSharedLogError) {
        guard !stream.isEmpty, stream.utf8.allSatisfy({ isPlain($0) }) else {
            throw .refused("\"\(stream)\" is not a valid stream name: use letters, digits, - and _")
        }
        self.stream = stream
        connection = try await NatsConnection(servers: servers, timeout: timeout)
        try await settle(
            JetStream.StreamSettings(name: stream, subjects: ["\(stream).*.*"], num_replicas: replicas))
        try await settle(
            JetStream.StreamSettings(
                name: snapshots, subjects: ["\(snapshots).>"], num_replicas: replicas))
    }

    /// The log of one key.
    ///
    /// - Parameter key: Any text, of at most 2,600 bytes, where each that is no letter, digit, `-` or `_` counts as three.
    /// - Returns: Its log; make one for each replica, and keep it.
    public func log(for key: String) -> JetStreamKeyLog { JetStreamKeyLog(self, key: key) }

    /// Which server leads the stream at present, for those who look after the servers.
    ///
    /// - Returns: Its name; nil where there is none.
    /// - Throws: Why no server answers.
    public func leader() async throws(FluxSharedLogError) -> String? {
        do {
            return try await ask("STREAM.INFO.\(stream)", [], JetStream.StreamAnswer.self).cluster?.leader
        } catch {
            throw error.failure("the stream \(stream)")
        }
    }

    /// Makes a stream, or finds it as it has to be.
    private func settle(_ wanted: JetStream.StreamSettings) async throws(FluxSharedLogError) {
        let found: JetStream.StreamSettings
        do {
            found = try await ask("STREAM.INFO.\(wanted.name)", [], JetStream.StreamAnswer.self).config
        } catch .notFound {
            do {
                found = try await ask(
                    "STREAM.CREATE.\(wanted.name)", JetStream.encode(wanted), JetStream.StreamAnswer.self
                ).config
            } catch .exists {
                // Another node was first.
                return try await settle(wanted)
            } catch {
                throw error.failure("the stream \(wanted.name)")
            }
        } catch {
            throw error.failure("the stream \(wanted.name)")
        }
        // Limits by which an append is refused are the operator's; what is read and written is not, nor that it stays.
        var differences: [String] = []
        func compare<Value: Equatable>(_ name: String, _ setting: KeyPath<JetStream.StreamSettings, Value>) {
            let (old, new) = (found[keyPath: setting], wanted[keyPath: setting])
            if old != new { differences.append("\(name) is \(old), not \(new)") }
        }
        compare("subjects", \.subjects)
        compare("retention", \.retention)
        compare("max_age", \.max_age)
        compare("storage", \.storage)
        compare("discard", \.discard)
        compare("num_replicas", \.num_replicas)
        compare("max_msgs_per_subject", \.max_msgs_per_subject)
        compare("allow_rollup_hdrs", \.allow_rollup_hdrs)
        if !differences.isEmpty {
            throw .refused("the stream \(wanted.name) exists, but its \(differences.joined(separator: ", its "))")
        }
    }

    /// Asks the servers something of JetStream, again where nobody answers: while there is no leader a question is just lost.
    func ask<Answer: Decodable>(
        _ what: String, _ question: [UInt8], _ answer: Answer.Type
    ) async throws(JetStream.Failure) -> Answer {
        let deadline = ContinuousClock.now + connection.timeout
        let patience = min(connection.timeout, .seconds(1))
        while true {
            let message: NatsConnection.Message
            do {
                message = try await connection.request("$JS.API.\(what)", question, within: patience)
            } catch .unavailable where ContinuousClock.now + patience <= deadline && !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(100))
                continue
            } catch {
                throw .other(error)
            }
            return try JetStream.decode(answer, message)
        }
    }

    /// A stored message, as the leader of its stream has it; nil: there is none.
    func stored(
        _ query: JetStream.Query, in stream: String
    ) async throws(FluxSharedLogError) -> JetStream.StoredAnswer.Stored? {
        do {
            return try await ask("STREAM.MSG.GET.\(stream)", JetStream.encode(query), JetStream.StoredAnswer.self)
                .message
        } catch .notFound {
            return nil
        } catch {
            throw error.failure("a message of \(stream)")
        }
    }

    /// All messages of a subject, as the leader of their stream has them.
    func all(of subject: String, in stream: String) async throws(FluxSharedLogError) -> [JetStream.StoredAnswer.Stored]
    {
        var all: [JetStream.StoredAnswer.Stored] = []
        var place: UInt64 = 0
        while let next = try await stored(JetStream.Query(seq: place + 1, next_by_subj: subject), in: stream) {
            all.append(next)
            place = next.seq
        }
        return all
    }

    /// Stores a message, and returns its place once a majority has it.
    ///
    /// Nothing that is stored has a condition, such as an expected sequence: see the README.
    func add(
        _ body: [UInt8], as subject: String, headers: [(String, String)] = []
    ) async throws(FluxSharedLogError) -> UInt64 {
        let message = try await connection.request(subject, body, headers: headers)
        do {
            return try JetStream.decode(JetStream.Acknowledgement.self, message).seq
        } catch {
            throw error.failure("the stream of \(subject)")
        }
    }

    /// Removes the messages of some subjects, all of them or those before a place.
    func purge(
        _ subjects: String, of stream: String, before place: UInt64? = nil
    ) async throws(FluxSharedLogError) {
        // Before the first there is nothing; and the server would take a 1 for no limit, and remove everything.
        if let place, place <= 1 { return }
        do {
            _ = try await ask(
                "STREAM.PURGE.\(stream)", JetStream.encode(JetStream.Purge(filter: subjects, seq: place)),
                JetStream.PurgeAnswer.self)
        } catch {
            throw error.failure("the stream \(stream)")
        }
    }
}

/// Whether a byte stands for itself in a subject.
private func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
        true
    default: false
    }
}

/// A key as one word of a subject; different keys are different words.
func subjectToken(_ key: String) -> String {
    let escaped = key.utf8.map { byte in
        isPlain(byte) ? String(UnicodeScalar(byte)) : "=" + String(byte / 16, radix: 16) + String(byte % 16, radix: 16)
    }
    return escaped.isEmpty ? "=" : escaped.joined()
}
