import CNats
import Foundation
import LocalServers

/// The C client by itself: as many messages as asked for, so many of them under way at once.
enum BareClient {
    static func append(_ count: Int, of size: Int, to subject: String, servers: [String], atOnce: Int) async throws {
        let (status, what): (natsStatus, String) = await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(returning: run(count, size, subject, servers, atOnce))
            }
        }
        if status != NATS_OK {
            throw ServerFailure(description: "\(what): \(String(cString: natsStatus_GetText(status)))")
        }
    }

    private static func run(
        _ count: Int, _ size: Int, _ subject: String, _ servers: [String], _ atOnce: Int
    ) -> (natsStatus, String) {
        var options: OpaquePointer?
        var connection: OpaquePointer?
        var jetStream: OpaquePointer?
        defer {
            jsCtx_Destroy(jetStream)
            natsConnection_Destroy(connection)
            natsOptions_Destroy(options)
        }
        let addresses = servers.map { strdup($0) }
        defer { for address in addresses { free(address) } }
        var pointers = addresses.map { UnsafePointer($0) }
        var status = natsOptions_Create(&options)
        if status == NATS_OK { status = natsOptions_SetServers(options, &pointers, Int32(pointers.count)) }
        if status == NATS_OK { status = natsOptions_SetSendAsap(options, true) }
        if status == NATS_OK { status = natsConnection_Connect(&connection, options) }
        var settings = jsOptions()
        if status == NATS_OK { status = jsOptions_Init(&settings) }
        settings.PublishAsync.MaxPending = Int64(atOnce)
        settings.PublishAsync.StallWait = 10_000
        if status == NATS_OK { status = natsConnection_JetStream(&jetStream, connection, &settings) }
        guard status == NATS_OK else { return (status, "connecting") }
        let bytes = [CChar](repeating: 7, count: size)
        for _ in 0..<count {
            status = js_PublishAsync(jetStream, subject, bytes, Int32(size), nil)
            if status != NATS_OK { return (status, "publishing") }
        }
        var wait = jsPubOptions()
        jsPubOptions_Init(&wait)
        wait.MaxWait = 60_000
        return (js_PublishAsyncComplete(jetStream, &wait), "waiting for the acknowledgements")
    }
}
