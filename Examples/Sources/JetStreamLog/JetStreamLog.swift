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
/// Each key has its own subjects in the stream, so a key's reader receives only that key's entries. The README next to
/// this file says what the log relies on.
///
/// Thread safety: everything may be used from any thread.
public final class JetStreamLog: Sendable {
    let connection: NatsConnection
    let stream: String
    /// The stream of the snapshots.
    var snapshots: String { stream + "-snapshots" }

    /// Returns the servers' addresses in a form that may be shown: without names, passwords and tokens.
    public static func shown(_ servers: [String]) -> String {
        var addresses: [String] = []
        for part in servers {
            let isAddress = part.hasPrefix("nats://") || part.hasPrefix("tls://")
            // Otherwise splitting at commas may have cut a password in two.
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

    /// Connects, and creates the streams if they do not exist.
    ///
    /// - Parameters:
    ///   - servers: Addresses such as `nats://127.0.0.1:4222`. The client connects only to these, whatever servers
    ///     announce.
    ///   - stream: The name of the stream: letters, digits, `-` and `_`.
    ///   - replicas: How many servers have every entry: 1, 3 or 5. An existing stream must have the same number.
    ///   - timeout: How long to wait for a server's answer before an operation is unavailable.
    /// - Throws: ``FluxSharedLogError/unavailable(_:)`` if no server answers or there is no leader; the call may be
    ///   repeated. ``FluxSharedLogError/refused(_:)`` if a stream cannot have the requested settings.
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

    /// Returns the log of one key.
    ///
    /// - Parameter key: Any text of at most 2,600 bytes; each that is not a letter, digit, `-` or `_` counts as three.
    /// - Returns: Its log. Create one for each replica, and keep it.
    public func log(for key: String) -> JetStreamKeyLog { JetStreamKeyLog(self, key: key) }

    /// Returns the name of the server that currently leads the stream, for operators.
    ///
    /// - Returns: Its name; nil if there is no leader.
    /// - Throws: The reason why no server answers.
    public func leader() async throws(FluxSharedLogError) -> String? {
        do {
            return try await ask("STREAM.INFO.\(stream)", [], JetStream.StreamAnswer.self).cluster?.leader
        } catch {
            throw error.failure("the stream \(stream)")
        }
    }

    /// Creates a stream, or checks that the existing one has the required settings.
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
                // Another node has created it first.
                return try await settle(wanted)
            } catch {
                throw error.failure("the stream \(wanted.name)")
            }
        } catch {
            throw error.failure("the stream \(wanted.name)")
        }
        // The operator may set limits that make a stream refuse appends, but not what is read and written, nor whether
        // it stays.
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

    /// Sends a request to JetStream, and repeats it while it gets no answer: without a leader, requests are lost.
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

    /// Returns a stored message, as the leader of its stream has it, or nil if there is none.
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

    /// Returns all messages of a subject, as the leader of their stream has them.
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
    /// No write has a condition, such as an expected sequence: see the README.
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

    /// Removes all messages of some subjects, or those before a place.
    func purge(
        _ subjects: String, of stream: String, before place: UInt64? = nil
    ) async throws(FluxSharedLogError) {
        // Nothing is before the first place, and a server would take a 1 for no limit and remove everything.
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

/// Returns whether a byte may appear in a subject without being escaped.
private func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
        true
    default: false
    }
}

/// Returns a key as one word of a subject; different keys give different words.
func subjectToken(_ key: String) -> String {
    let escaped = key.utf8.map { byte in
        isPlain(byte) ? String(UnicodeScalar(byte)) : "=" + String(byte / 16, radix: 16) + String(byte % 16, radix: 16)
    }
    return escaped.isEmpty ? "=" : escaped.joined()
}
