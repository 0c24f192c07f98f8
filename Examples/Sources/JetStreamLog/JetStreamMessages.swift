import FluxReplication
import Foundation

/// What JetStream is asked, and answers, as JSON.
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
        /// Answers that may come from a server that has fallen behind are not asked for.
        var allow_direct = false
    }

    struct StreamAnswer: Decodable {
        struct Cluster: Decodable {
            let leader: String?
        }
        let config: StreamSettings
        let cluster: Cluster?
    }

    /// Which stored message is wanted: the last of a subject, or the first of some subjects from a place on.
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
        /// The first that stays.
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
        /// In nanoseconds, as all times here.
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

    /// That a message is stored, and where.
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

    /// What a server says it cannot do.
    enum Failure: Error {
        case notFound
        case exists
        case other(FluxSharedLogError)
    }

    private static let errorKey = Data("\"error\"".utf8)

    /// Reads an answer.
    static func decode<Answer: Decodable>(_ type: Answer.Type, _ message: NatsConnection.Message) throws(Failure)
        -> Answer
    {
        let bytes = Data(message.body)
        // Looked for first: to decode everything twice would be half of what an append costs.
        if bytes.range(of: Self.errorKey) != nil,
            let details = (try? JSONDecoder().decode(Refusal.self, from: bytes))?.error
        {
            let text = "\(details.description ?? "an error") (\(details.err_code ?? details.code))"
            switch (details.code, details.err_code) {
            case (_, 10037), (_, 10059): throw .notFound
            case (_, 10058): throw .exists
            // No stream can be so, whatever becomes of the servers: 10052: its settings; 10074: more replicas than there are servers.
            case (_, 10052), (_, 10074): throw .other(.refused(text))
            // Resources and limits are among these too: an operator can cure them. 10002: those of the account; 10005: too few
            // servers are up.
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
        // Of numbers and texts only: there is nothing in them that JSON has no form for.
        do { return Array(try JSONEncoder().encode(value)) } catch { fatalError("\(error)") }
    }
}

extension JetStream.Failure {
    /// What it is to whoever did not expect it.
    func failure(_ what: String) -> FluxSharedLogError {
        switch self {
        case .notFound: .unavailable("\(what) does not exist")
        case .exists: .refused("\(what) exists with other settings")
        case .other(let error): error
        }
    }
}
