import CNats
import Dispatch
import FluxReplication
import Foundation
import Synchronization

/// A connection to a cluster of NATS servers, for many tasks at once: requests with their answers, and deliveries.
///
/// The C client reconnects by itself, has its own threads, and calls back on them. It may block, so it is never called
/// on a thread of Swift's tasks. After an error from a server that closes it permanently, the next call opens another
/// connection.
///
/// Thread safety: everything may be used from any thread.
final class NatsConnection: Sendable {
    /// A message from a server.
    struct Message: Sendable {
        let subject: String
        let reply: String
        let body: [UInt8]
        /// A status that a server sends instead of a message, such as 503: the subject has no subscriber.
        let status: Int?
        let description: String
        /// The numbers in the headers that describe the state of a delivery, by header name.
        let counts: [String: UInt64]
    }

    /// How long an answer may take.
    let timeout: Swift.Duration
    /// The largest message that the servers accept.
    let limit: Int
    private let link: Link
    private let inbox: String
    private let answers: Answers
    /// Runs all calls of the C client that may block.
    private let queue: DispatchQueue
    private let ticking: Task<Void, Never>

    /// Connects to the first server that answers.
    ///
    /// - Parameters:
    ///   - servers: Their addresses, such as `nats://127.0.0.1:4222`; the client connects to no others.
    ///   - timeout: How long an answer may take.
    /// - Throws: ``FluxSharedLogError/unavailable(_:)`` if none answers, or ``FluxSharedLogError/refused(_:)``.
    init(servers: [String], timeout: Swift.Duration) async throws(FluxSharedLogError) {
        let (queue, answers, inbox) = (DispatchQueue(label: "NatsConnection"), Answers(), Self.newInbox())
        let result: Result<Link, FluxSharedLogError> = await withCheckedContinuation { continuation in
            queue.async {
                continuation.resume(
                    returning: Result { () throws(FluxSharedLogError) in
                        try Link(servers: servers, answers: answers, inbox: inbox)
                    })
            }
        }
        link = try result.get()
        (self.queue, self.answers, self.inbox, self.timeout) = (queue, answers, inbox, timeout)
        limit = link.limit
        ticking = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(100))
                answers.tick(.now)
            }
        }
    }

    deinit {
        ticking.cancel()
        // On the queue, so that everything still to be sent goes first, such as the deletion of a consumer.
        queue.async { [link] in link.end() }
    }

    /// Returns a new subject that is used only here.
    static func newInbox() -> String { "_INBOX." + UUID().uuidString }

    /// Returns the caller's error for a status of the C client.
    fileprivate static func failure(_ status: natsStatus, _ what: String) -> FluxSharedLogError {
        let text = "\(what): \(natsStatus_GetText(status).map { String(cString: $0) } ?? "status \(status.rawValue)")"
        switch status {
        case NATS_INVALID_ARG, NATS_INVALID_SUBJECT, NATS_MAX_PAYLOAD, NATS_NOT_PERMITTED,
            NATS_CONNECTION_AUTH_FAILED, NATS_ADDRESS_MISSING, NATS_ILLEGAL_STATE, NATS_PROTOCOL_ERROR:
            return .refused(text)
        default: return .unavailable(text)
        }
    }

    // MARK: - Requests

    /// Sends a message and waits for the answer.
    ///
    /// - Parameters:
    ///   - subject: The subject to send it to.
    ///   - body: Its content.
    ///   - headers: Its headers.
    ///   - duration: How long the answer may take; nil: the connection's timeout.
    /// - Returns: The answer.
    /// - Throws: ``FluxSharedLogError/unavailable(_:)`` if no answer arrives in time, or the task is cancelled.
    func request(
        _ subject: String, _ body: [UInt8], headers: [(String, String)] = [], within duration: Swift.Duration? = nil
    ) async throws(FluxSharedLogError) -> Message {
        guard body.count + headers.reduce(64, { $0 + $1.0.utf8.count + $1.1.utf8.count + 4 }) <= limit else {
            throw .refused("\(body.count) bytes for \(subject) exceed the servers' limit of \(limit)")
        }
        let number = answers.newNumber()
        let answer = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                guard answers.expect(number, subject: subject, until: .now + (duration ?? timeout), continuation) else {
                    return
                }
                send(Outgoing(subject: subject, reply: "\(inbox).\(number)", body: body, headers: headers)) {
                    [answers] error in answers.finish(number, .failure(error))
                }
            }
        } onCancel: {
            answers.cancel(number)
        }
        answers.forget(number)
        let message = try answer.get()
        if message.status == 503 { throw .unavailable("no server answers for \(subject) at present") }
        return message
    }

    /// Sends a message without waiting for anything, even for it to be sent.
    func post(_ subject: String, _ body: [UInt8], reply: String?) {
        send(Outgoing(subject: subject, reply: reply, body: body, headers: [])) { _ in }
    }

    private struct Outgoing {
        let subject: String
        let reply: String?
        let body: [UInt8]
        let headers: [(String, String)]
    }

    private func send(_ outgoing: Outgoing, failed: @escaping @Sendable (FluxSharedLogError) -> Void) {
        queue.async { [link] in
            let connection: OpaquePointer
            do throws(FluxSharedLogError) { connection = try link.standing() } catch { return failed(error) }
            var message: OpaquePointer?
            var status = outgoing.body.withUnsafeBytes { bytes in
                natsMsg_Create(
                    &message, outgoing.subject, outgoing.reply,
                    bytes.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(bytes.count))
            }
            defer { natsMsg_Destroy(message) }
            for (name, value) in outgoing.headers where status == NATS_OK {
                status = natsMsgHeader_Set(message, name, value)
            }
            if status == NATS_OK { status = natsConnection_PublishMsg(connection, message) }
            if status != NATS_OK { failed(Self.failure(status, "sending to \(outgoing.subject)")) }
        }
    }

    // MARK: - Deliveries

    /// Delivers all messages of a subject, one after another, until the subscription is ended.
    func subscribe(
        to subject: String, _ receive: @escaping @Sendable (Message) -> Void
    ) async throws(FluxSharedLogError) -> Subscription {
        let result: Result<Subscription, FluxSharedLogError> = await withCheckedContinuation { continuation in
            queue.async { [link] in
                continuation.resume(
                    returning: Result { () throws(FluxSharedLogError) in
                        try Subscription(link.standing(), subject: subject, receive)
                    })
            }
        }
        return try result.get()
    }

    /// Ends a subscription.
    func end(_ subscription: Subscription) {
        // This may wait for the connection's lock, which a stuck write holds.
        queue.async { subscription.end() }
    }

    /// Calls `tick` ten times a second, until `unwatch`.
    func watch(_ tick: @escaping @Sendable (ContinuousClock.Instant) -> Void) -> UInt64 { answers.watch(tick) }

    /// Ends the calls of a `watch`.
    func unwatch(_ number: UInt64) { answers.unwatch(number) }

    /// A subscription to the messages of a subject, until it is ended.
    final class Subscription: Sendable {
        private let handle: Mutex<Handle?>

        fileprivate init(
            _ connection: OpaquePointer, subject: String, _ receive: @escaping @Sendable (Message) -> Void
        ) throws(FluxSharedLogError) {
            let receiver = Unmanaged.passRetained(Receiver(receive)).toOpaque()
            var subscription: OpaquePointer?
            var status = natsConnection_Subscribe(
                &subscription, connection, subject,
                { _, _, message, receiver in
                    if let message, let receiver {
                        Unmanaged<Receiver>.fromOpaque(receiver).takeUnretainedValue().receive(Message(message))
                    }
                    natsMsg_Destroy(message)
                }, receiver)
            guard status == NATS_OK, let subscription else {
                Unmanaged<Receiver>.fromOpaque(receiver).release()
                throw NatsConnection.failure(status, "subscribing to \(subject)")
            }
            // Readers request no more than they can hold, so nothing needs to be dropped here.
            natsSubscription_SetPendingLimits(subscription, -1, -1)
            status = natsSubscription_SetOnCompleteCB(
                subscription, { if let receiver = $0 { Unmanaged<Receiver>.fromOpaque(receiver).release() } }, receiver)
            handle = Mutex(Handle(pointer: subscription))
        }

        /// Ends the subscription; a message that is being delivered may still arrive.
        fileprivate func end() {
            guard let handle = handle.withLock({ $0.take() }) else { return }
            natsSubscription_Unsubscribe(handle.pointer)
            natsSubscription_Destroy(handle.pointer)
        }
    }
}

/// The C client's connection, and the next one if a server has closed it permanently.
///
/// The client reconnects by itself after most losses, but not if a server objects to something that was sent, or has
/// refused it twice. A later attempt may succeed.
///
/// It belongs to the queue of a ``NatsConnection``.
private final class Link: @unchecked Sendable {
    private let servers: [String]
    private let answers: Answers
    /// The prefix of the subjects of all answers.
    private let inbox: String
    private var connection: OpaquePointer?
    private var subscription: NatsConnection.Subscription?
    /// When it last connected, or last tried to.
    private var tried = ContinuousClock.now

    init(servers: [String], answers: Answers, inbox: String) throws(FluxSharedLogError) {
        (self.servers, self.answers, self.inbox) = (servers, answers, inbox)
        try connect()
    }

    /// The largest message that the servers accept.
    var limit: Int { Int(natsConnection_GetMaxPayload(connection)) }

    /// Returns the connection, which is open or being restored by the client itself.
    func standing() throws(FluxSharedLogError) -> OpaquePointer {
        if let connection, !natsConnection_IsClosed(connection) { return connection }
        // At the pace of the client's own attempts; in between, callers get the reason.
        if .now - tried > .milliseconds(100) {
            end()
            do throws(FluxSharedLogError) {
                return try connect()
            } catch .unavailable(let reason), .refused(let reason) {
                answers.told(reason)
            } catch {}
        }
        throw .unavailable(answers.explained("a server has closed the connection"))
    }

    @discardableResult private func connect() throws(FluxSharedLogError) -> OpaquePointer {
        defer { tried = .now }
        let connection = try Self.connect(servers: servers, answers: answers)
        do throws(FluxSharedLogError) {
            subscription = try .init(connection, subject: inbox + ".*") { [answers] in answers.received($0) }
        } catch {
            natsConnection_Destroy(connection)
            throw error
        }
        self.connection = connection
        return connection
    }

    /// Closes the connection after sending what is still pending.
    func end() {
        subscription?.end()
        natsConnection_FlushTimeout(connection, 1_000)
        natsConnection_Destroy(connection)
        (subscription, connection) = (nil, nil)
    }

    private static func connect(servers: [String], answers: Answers) throws(FluxSharedLogError) -> OpaquePointer {
        var options: OpaquePointer?
        guard natsOptions_Create(&options) == NATS_OK else { throw .unavailable("out of memory") }
        defer { natsOptions_Destroy(options) }
        let addresses = servers.map { strdup($0) }
        defer { for address in addresses { free(address) } }
        var pointers = addresses.map { UnsafePointer($0) }
        let events = Unmanaged.passRetained(answers).toOpaque()
        let steps = [
            natsOptions_SetServers(options, &pointers, Int32(pointers.count)),
            natsOptions_SetIgnoreDiscoveredServers(options, true),
            natsOptions_UseGlobalMessageDelivery(options, true),
            natsOptions_SetTimeout(options, 2_000),
            natsOptions_SetMaxReconnect(options, -1),
            natsOptions_SetReconnectWait(options, 100),
            // Otherwise each message waits a millisecond for more.
            natsOptions_SetSendAsap(options, true),
            // A stopped server keeps its connections open, so only silence reveals it.
            natsOptions_SetPingInterval(options, 1_000),
            natsOptions_SetMaxPingsOut(options, 2),
            natsOptions_SetWriteDeadline(options, 2_000),
            natsOptions_SetDisconnectedCB(
                options,
                { connection, events in
                    // The error handler is not called for an error that closes the connection permanently.
                    Answers.from(events)?.told(lastError(of: connection))
                    Answers.from(events)?.lostConnection()
                }, events),
            natsOptions_SetClosedCB(
                options, { _, events in if let events { Unmanaged<Answers>.fromOpaque(events).release() } }, events),
            natsOptions_SetErrorHandler(
                options,
                { _, _, status, events in
                    // The connection's own last error may be a later one already.
                    var last = NATS_OK
                    guard let text = nats_GetLastError(&last), last == status else { return }
                    Answers.from(events)?.told(String(cString: text))
                }, events),
        ]
        var connection: OpaquePointer?
        var status = steps.first { $0 != NATS_OK } ?? natsConnection_Connect(&connection, options)
        if status == NATS_OK, connection == nil { status = NATS_ERR }
        guard status == NATS_OK, let connection else {
            Unmanaged<Answers>.fromOpaque(events).release()
            throw NatsConnection.failure(status, "connecting to \(JetStreamLog.shown(servers))")
        }
        return connection
    }
}

/// Returns the server's last error, or nil if there is none.
private func lastError(of connection: OpaquePointer?) -> String? {
    var text: UnsafePointer<CChar>?
    guard natsConnection_GetLastError(connection, &text) != NATS_OK, let text, text.pointee != 0 else { return nil }
    return String(cString: text)
}

/// A pointer to an object of the C client, which does its own locking.
private struct Handle: @unchecked Sendable {
    let pointer: OpaquePointer
}

/// A closure in an object that C can carry.
private final class Receiver: Sendable {
    let receive: @Sendable (NatsConnection.Message) -> Void

    init(_ receive: @escaping @Sendable (NatsConnection.Message) -> Void) { self.receive = receive }
}

extension NatsConnection.Message {
    fileprivate init(_ message: OpaquePointer) {
        func header(_ name: String) -> String? {
            var value: UnsafePointer<CChar>?
            guard natsMsgHeader_Get(message, name, &value) == NATS_OK, let value else { return nil }
            return String(cString: value)
        }
        subject = String(cString: natsMsg_GetSubject(message))
        reply = natsMsg_GetReply(message).map { String(cString: $0) } ?? ""
        let count = Int(natsMsg_GetDataLength(message))
        body = Array(UnsafeRawBufferPointer(start: natsMsg_GetData(message), count: count))
        // A status has no body, and looking up headers has a cost.
        status = count == 0 ? header("Status").flatMap { Int($0) } : nil
        description = status == nil ? "" : header("Description") ?? ""
        var counts: [String: UInt64] = [:]
        if status != nil {
            for name in ["Nats-Last-Consumer", "Nats-Pending-Messages"] {
                counts[name] = header(name).flatMap(UInt64.init)
            }
        }
        self.counts = counts
    }
}

/// The callers that wait for answers, by number.
private final class Answers: Sendable {
    typealias Answer = Result<NatsConnection.Message, FluxSharedLogError>

    private struct Expected {
        let subject: String
        let deadline: ContinuousClock.Instant
        let continuation: CheckedContinuation<Answer, Never>
    }

    private struct State {
        var last: UInt64 = 0
        var expected: [UInt64: Expected] = [:]
        /// The calls whose task was cancelled before they began to wait.
        var cancelled: Set<UInt64> = []
        var watchers: [UInt64: @Sendable (ContinuousClock.Instant) -> Void] = [:]
        /// The last error, until an answer arrives.
        var trouble: String?

        func explained(_ text: String) -> String { trouble.map { "\(text); the last error was: \($0)" } ?? text }
    }

    private let state = Mutex(State())

    static func from(_ pointer: UnsafeMutableRawPointer?) -> Answers? {
        pointer.map { Unmanaged<Answers>.fromOpaque($0).takeUnretainedValue() }
    }

    func newNumber() -> UInt64 {
        state.withLock { state in
            state.last += 1
            return state.last
        }
    }

    /// Registers a caller for an answer; returns false, and resumes it, if its task is cancelled already.
    func expect(
        _ number: UInt64, subject: String, until deadline: ContinuousClock.Instant,
        _ continuation: CheckedContinuation<Answer, Never>
    ) -> Bool {
        let isCancelled = state.withLock { state in
            if state.cancelled.remove(number) != nil { return true }
            state.expected[number] = Expected(subject: subject, deadline: deadline, continuation: continuation)
            return false
        }
        if isCancelled { continuation.resume(returning: .failure(.unavailable("the task was cancelled"))) }
        return !isCancelled
    }

    func cancel(_ number: UInt64) {
        let expected = state.withLock { state in
            let expected = state.expected.removeValue(forKey: number)
            if expected == nil { state.cancelled.insert(number) }
            return expected
        }
        expected?.continuation.resume(returning: .failure(.unavailable("the task was cancelled")))
    }

    /// Forgets the cancellation of a call that has returned.
    func forget(_ number: UInt64) { _ = state.withLock { $0.cancelled.remove(number) } }

    func finish(_ number: UInt64, _ answer: Answer) {
        state.withLock { $0.expected.removeValue(forKey: number) }?.continuation.resume(returning: answer)
    }

    func received(_ message: NatsConnection.Message) {
        guard let number = message.subject.split(separator: ".").last.flatMap({ UInt64($0) }) else { return }
        state.withLock { $0.trouble = nil }
        finish(number, .success(message))
    }

    /// Records an error that a server has reported or the client has found.
    func told(_ trouble: String?) {
        guard let trouble else { return }
        let denied = state.withLock { state in
            state.trouble = trouble
            let denied = state.expected.filter { Self.isDenied($0.value.subject, by: trouble) }
            for number in denied.keys { state.expected[number] = nil }
            return denied.values
        }
        // Not refused: the error does not say which message to the subject it means; an earlier one may have been
        // stored.
        for expected in denied { expected.continuation.resume(returning: .failure(.unavailable(trouble))) }
    }

    /// Returns whether an error says that this client may not publish to a subject; the client truncates long texts.
    private static func isDenied(_ subject: String, by trouble: String) -> Bool {
        let start = "Permissions Violation for Publish to \""
        return trouble.hasPrefix(start) && "\(start)\(subject)\"".hasPrefix(trouble)
    }

    /// Appends the last error to a text.
    func explained(_ text: String) -> String { state.withLock { $0.explained(text) } }

    /// Fails all waiting calls immediately, without waiting for their deadlines: their answers can no longer arrive.
    func lostConnection() {
        let (all, text) = state.withLock { state in
            defer { state.expected = [:] }
            return (state.expected.values, state.explained("the connection was lost before the answer arrived"))
        }
        for expected in all { expected.continuation.resume(returning: .failure(.unavailable(text))) }
    }

    func tick(_ now: ContinuousClock.Instant) {
        let (late, watchers) = state.withLock { state in
            let late = state.expected.filter { $0.value.deadline < now }
            for number in late.keys { state.expected[number] = nil }
            return (
                late.values.map {
                    ($0, state.explained("no answer in time to a message for \($0.subject)"))
                }, state.watchers.values
            )
        }
        for (expected, text) in late { expected.continuation.resume(returning: .failure(.unavailable(text))) }
        for watcher in watchers { watcher(now) }
    }

    func watch(_ tick: @escaping @Sendable (ContinuousClock.Instant) -> Void) -> UInt64 {
        let number = newNumber()
        state.withLock { $0.watchers[number] = tick }
        return number
    }

    func unwatch(_ number: UInt64) {
        let watcher = state.withLock { $0.watchers.removeValue(forKey: number) }
        withExtendedLifetime(watcher) {}
    }
}
