import FluxReplication
import Foundation

/// JetStream's requests and answers, as JSON.
enum JetStream {
    struct StreamSettings: Codable, Equatable {
        var name: String
        var subjects: [String]
        var retention = "limits"
        var discard = "new"
        var storage = "file"
        var num_replicas: Int
        var max_msgs_per_subject = -1
        var max_consumers = -1
        var max_msgs = -1
        var max_bytes = -1
        var max_age = 0
        var allow_rollup_hdrs = true
        /// Off, because a server that has fallen behind may answer direct reads.
        var allow_direct = false
    }

    struct StreamAnswer: Decodable {
        struct Cluster: Decodable {
            let leader: String?
        }
        let config: StreamSettings
        let cluster: Cluster?
    }

    /// The stored message to look up: the last of a subject, or the first of some subjects from a place on.
    struct Query: Encodable {
        var last_by_subj: String?
        var seq: UInt64?
        var next_by_subj: String?
    }

    struct StoredAnswer: Decodable {
        struct Stored: Decodable {
            let subject: String
            let seq: UInt64
            let data: Data?
        }
        let message: Stored
    }

    struct Purge: Encodable {
        let filter: String
        /// The first message that stays.
        let seq: UInt64?
    }

    struct PurgeAnswer: Decodable {
        let success: Bool
    }

    struct ConsumerSettings: Encodable {
        var ack_policy = "none"
        var deliver_policy = "by_start_sequence"
        let opt_start_seq: UInt64
        let filter_subject: String
        var replay_policy = "instant"
        var mem_storage = true
        var num_replicas = 1
        /// In nanoseconds, like all times here.
        var inactive_threshold = 30_000_000_000
    }

    struct NewConsumer: Encodable {
        let stream_name: String
        let config: ConsumerSettings
    }

    struct ConsumerAnswer: Decodable {
        let name: String
    }

    struct Pull: Encodable {
        let batch: Int
        let expires: Int
        let idle_heartbeat: Int
    }

    /// Confirms that a message is stored, and where.
    struct Acknowledgement: Decodable {
        let seq: UInt64
    }

    private struct Refusal: Decodable {
        struct Details: Decodable {
            let code: Int
            let err_code: Int?
            let description: String?
        }
        let error: Details?
    }

    /// A server's refusal.
    enum Failure: Error {
        case notFound
        case exists
        case other(FluxSharedLogError)
    }

    private static let errorKey = Data("\"error\"".utf8)

    /// Decodes an answer, or throws the error in it.
    static func decode<Answer: Decodable>(_ type: Answer.Type, _ message: NatsConnection.Message) throws(Failure)
        -> Answer
    {
        let bytes = Data(message.body)
        // Checked first, because decoding everything twice would be half the cost of an append.
        if bytes.range(of: Self.errorKey) != nil,
            let details = (try? JSONDecoder().decode(Refusal.self, from: bytes))?.error
        {
            let text = "\(details.description ?? "an error") (\(details.err_code ?? details.code))"
            switch (details.code, details.err_code) {
            case (_, 10037), (_, 10059): throw .notFound
            case (_, 10058): throw .exists
            // Lasting: no change on the servers cures these. 10052: bad settings; 10074: more replicas than there are
            // servers.
            case (_, 10052), (_, 10074): throw .other(.refused(text))
            // These include resources and limits, which an operator can fix. 10002: the account's limits; 10005: too
            // few servers are running.
            case (500..., _), (_, 10002), (_, 10005): throw .other(.unavailable(text))
            default: throw .other(.refused(text))
            }
        }
        do {
            return try JSONDecoder().decode(type, from: bytes)
        } catch {
            let start = String(decoding: message.body.prefix(200), as: UTF8.self)
            throw .other(.unavailable("unreadable answer: \(start)"))
        }
    }

    static func encode(_ value: some Encodable) -> [UInt8] {
        // Cannot fail: these values consist of numbers and texts only.
        do { return Array(try JSONEncoder().encode(value)) } catch { fatalError("\(error)") }
    }
}

extension JetStream.Failure {
    /// Returns the error for a caller that did not expect this failure.
    func failure(_ what: String) -> FluxSharedLogError {
        switch self {
        case .notFound: .unavailable("\(what) does not exist")
        case .exists: .refused("\(what) exists with other settings")
        case .other(let error): error
        }
    }
}
