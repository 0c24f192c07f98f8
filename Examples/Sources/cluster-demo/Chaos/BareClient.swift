import CNats
import Foundation
import LocalServers

/// The C client alone.
///
/// Its calls block, so each instance is used by a single thread, which runs no tasks.
final class BareClient {
    private var connection: OpaquePointer?
    private var jetStream: OpaquePointer?
    private let stream: String

    /// Connects to the first server that answers, in the order given.
    ///
    /// - Parameters:
    ///   - servers: Their addresses.
    ///   - stream: The stream to append to and to read.
    ///   - atOnce: How many appends may be in flight.
    /// - Throws: The reason why it is not connected.
    init(servers: [String], stream: String, atOnce: Int = 1) throws {
        self.stream = stream
        var options: OpaquePointer?
        defer { natsOptions_Destroy(options) }
        let addresses = servers.map { strdup($0) }
        defer { for address in addresses { free(address) } }
        var pointers = addresses.map { UnsafePointer($0) }
        try check(natsOptions_Create(&options), "connecting")
        try check(natsOptions_SetServers(options, &pointers, Int32(pointers.count)), "connecting")
        for status in [
            natsOptions_SetNoRandomize(options, true), natsOptions_SetIgnoreDiscoveredServers(options, true),
            natsOptions_SetSendAsap(options, true), natsOptions_SetMaxReconnect(options, -1),
            natsOptions_SetReconnectWait(options, 100), natsOptions_SetPingInterval(options, 1_000),
            natsOptions_SetMaxPingsOut(options, 2), natsConnection_Connect(&connection, options),
        ] { try check(status, "connecting") }
        var settings = jsOptions()
        try check(jsOptions_Init(&settings), "connecting")
        settings.Wait = 2_000
        settings.PublishAsync.MaxPending = Int64(atOnce)
        settings.PublishAsync.StallWait = 10_000
        try check(natsConnection_JetStream(&jetStream, connection, &settings), "connecting")
    }

    deinit {
        jsCtx_Destroy(jetStream)
        natsConnection_Destroy(connection)
    }

    /// Runs a body on its own thread.
    static func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
        }
    }

    // MARK: - Appending

    /// Appends a number of messages to a subject, and returns once all are acknowledged.
    func append(_ count: Int, of size: Int, to subject: String) throws {
        let bytes = [CChar](repeating: 7, count: size)
        for _ in 0..<count { try check(js_PublishAsync(jetStream, subject, bytes, Int32(size), nil), "publishing") }
        var wait = jsPubOptions()
        jsPubOptions_Init(&wait)
        wait.MaxWait = 60_000
        try check(js_PublishAsyncComplete(jetStream, &wait), "waiting for the acknowledgements")
    }

    /// Appends one message, and returns its position, or nil if it was not acknowledged.
    func append(_ text: String, to subject: String) -> UInt64? {
        var acknowledgement: UnsafeMutablePointer<jsPubAck>?
        defer { jsPubAck_Destroy(acknowledgement) }
        let status = js_Publish(&acknowledgement, jetStream, subject, text, Int32(text.utf8.count), nil, nil)
        return status == NATS_OK ? acknowledgement?.pointee.Sequence : nil
    }

    // MARK: - The stream

    /// The status of the stream, as its leader reports it.
    struct Standing {
        let leader: String
        let positions: Range<UInt64>
        /// Whether the leader says that all other servers have what it has.
        let isCurrent: Bool
    }

    /// Creates the stream: files at three servers, and otherwise the engine's defaults.
    func makeStream() throws {
        var settings = jsStreamConfig()
        try check(jsStreamConfig_Init(&settings), "creating the stream")
        let subjects = strdup("\(stream).>")
        defer { free(subjects) }
        var pointers = [UnsafePointer(subjects)]
        try stream.withCString { name in
            try pointers.withUnsafeMutableBufferPointer { pointers in
                settings.Name = name
                settings.Subjects = pointers.baseAddress
                settings.SubjectsLen = 1
                settings.Replicas = 3
                try check(js_AddStream(nil, jetStream, &settings, nil, nil), "creating the stream")
            }
        }
    }

    func standing() throws -> Standing {
        var info: UnsafeMutablePointer<jsStreamInfo>?
        try check(js_GetStreamInfo(&info, jetStream, stream, nil, nil), "requesting the stream")
        defer { jsStreamInfo_Destroy(info) }
        guard let found = info?.pointee, let cluster = found.Cluster?.pointee, let leader = cluster.Leader else {
            throw ServerFailure(description: "the stream \(stream) has no leader")
        }
        let others = (0..<Int(cluster.ReplicasLen)).compactMap { cluster.Replicas[$0]?.pointee }
        let first = max(found.State.FirstSeq, 1)
        return Standing(
            leader: String(cString: leader), positions: first..<max(found.State.LastSeq + 1, first),
            isCurrent: others.allSatisfy { $0.Current && !$0.Offline && $0.Lag == 0 })
    }

    /// Returns the subject and content of a message, as the leader has it, or nil if it has none at this position.
    func message(at position: UInt64) throws -> String? {
        var message: OpaquePointer?
        defer { natsMsg_Destroy(message) }
        let status = js_GetMsg(&message, jetStream, stream, position, nil, nil)
        if status == NATS_NOT_FOUND { return nil }
        try check(status, "reading \(position)")
        let bytes = UnsafeRawBufferPointer(
            start: natsMsg_GetData(message), count: Int(natsMsg_GetDataLength(message)))
        return String(cString: natsMsg_GetSubject(message)) + " " + Data(bytes).base64EncodedString()
    }

    /// Makes the leader step down in favour of another.
    func changeLeader() throws {
        var answer: OpaquePointer?
        defer { natsMsg_Destroy(answer) }
        try check(
            natsConnection_RequestString(
                &answer, connection, "$JS.API.STREAM.LEADER.STEPDOWN.\(stream)", "", 2_000), "changing the leader")
    }
}

private func check(_ status: natsStatus, _ what: String) throws {
    if status != NATS_OK {
        throw ServerFailure(description: "\(what): \(String(cString: natsStatus_GetText(status)))")
    }
}
