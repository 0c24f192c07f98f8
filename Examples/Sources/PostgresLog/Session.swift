import CPostgres
import Dispatch
import FluxReplication
import Foundation
import Synchronization

/// What a statement is given.
enum Parameter {
    case text(String), number(UInt64), bytes([UInt8]), array([[UInt8]])

    /// As the server takes it in binary form.
    var bytes: [UInt8] {
        switch self {
        case .text(let text): Array(text.utf8)
        case .number(let number): bigEndian(Int64(clamping: number))
        case .bytes(let bytes): bytes
        // One dimension, no NULL, of `bytea` (17), how many, counted from 1; and each with its length.
        case .array(let elements):
            [1, 0, 17, Int32(elements.count), 1].flatMap(bigEndian)
                + elements.flatMap { bigEndian(Int32($0.count)) + $0 }
        }
    }

    private func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian, Array.init)
    }
}

/// What a statement answers: the bytes of each column, nil for NULL.
typealias Row = [[UInt8]?]

extension [UInt8]? {
    /// A `bigint`.
    var number: UInt64 { (self ?? []).reduce(0) { $0 << 8 | UInt64($1) } }
}

/// One connection, which is made when it is needed and again after it was lost; one statement at a time.
final class Session: @unchecked Sendable {
    private let address: String
    /// What the connection and all calls of libpq belong to, since they wait.
    let queue = DispatchQueue(label: "PostgresLog")
    private var connection: OpaquePointer?

    init(_ address: String) { self.address = address }

    deinit { PQfinish(connection) }

    /// Returns when what was asked for before has been answered.
    func whenFree() async {
        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    }

    /// Runs a statement, which may go on when the task that waits for it is cancelled.
    func run(
        _ statement: String, _ parameters: [Parameter] = [], sending size: Int? = nil
    ) async throws(FluxSharedLogError) -> [Row] {
        let answer = Answer<[Row]>()
        queue.async {
            if answer.isGiven { return }
            answer.give(Result { () throws(FluxSharedLogError) in try self.perform(statement, parameters) })
        }
        return try await answer.get(sending: size)
    }

    /// The connection, which stands; on the queue.
    func connected() throws(FluxSharedLogError) -> OpaquePointer {
        if let connection, PQstatus(connection) == CONNECTION_OK { return connection }
        let isFirst = connection == nil
        PQfinish(connection)
        connection = connect()
        let text = "connecting to PostgreSQL: \(message)"
        if isFirst, PQstatus(connection) != CONNECTION_OK { try askForCode(text) }
        guard let connection, PQstatus(connection) == CONNECTION_OK else { throw .unavailable(text) }
        // Nobody waits for good, whoever holds a lock. A statement itself has no limit: the time to send it counts too, and over a slow
        // line a large one would be cut off at each attempt.
        // And what is acknowledged is on disk, whatever the database says of others.
        PQclear(
            PQexec(
                connection,
                """
                SET client_min_messages = error; SET statement_timeout = 0; SET lock_timeout = '5s';
                SET synchronous_commit = on
                """))
        return connection
    }

    /// Connects so that it is noticed when the other side vanishes without a word, which no limit of the server's would tell.
    private func connect() -> OpaquePointer? {
        let options = PQconninfoParse(address, nil)
        PQconninfoFree(options)
        // What cannot be read would be taken for the name of a database; so it says what is wrong.
        if options == nil { return PQconnectdb(address) }
        // The address comes last, and has the last word.
        let settings = [
            ("connect_timeout", "5"), ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "10000"), ("dbname", address),
        ]
        let words = (settings.map(\.0) + settings.map(\.1)).map { strdup($0) }
        defer { for word in words { free(word) } }
        let names = words.prefix(settings.count).map { UnsafePointer($0) } + [nil]
        let values = words.suffix(settings.count).map { UnsafePointer($0) } + [nil]
        return PQconnectdbParams(names, values, 1)
    }

    private var message: String { String(cString: PQerrorMessage(connection)) }

    /// Refuses an address, a name or a password that will be wrong at the next attempt too.
    ///
    /// Only at the first: what was right once may be right again.
    private func askForCode(_ text: String) throws(FluxSharedLogError) {
        let options = PQconninfoParse(address, nil)
        PQconninfoFree(options)
        if options == nil || PQconnectionNeedsPassword(connection) == 1 { throw .refused(text) }
        // What a server answers to a connection has no code unless that is asked for, and a new connection cannot be told to ask.
        guard text.contains("FATAL") else { return }
        PQsetErrorVerbosity(connection, PQERRORS_SQLSTATE)
        PQreset(connection)
        if Self.lasting.contains(where: { message.contains("FATAL:  \($0)") }) { throw .refused(text) }
        PQsetErrorVerbosity(connection, PQERRORS_DEFAULT)
    }

    /// The classes of what does not go away: what is wrong with the data, a constraint, the rights, or the statement.
    private static let lasting = ["0A", "22", "23", "28", "3D", "42", "54"]

    /// Runs a statement; on the queue.
    func perform(_ statement: String, _ parameters: [Parameter]) throws(FluxSharedLogError) -> [Row] {
        let connection = try connected()
        let values = parameters.map(\.bytes)
        // As large as a message to the server may be.
        let size = values.reduce(0) { $0 + $1.count }
        guard size < 1 << 30 else { throw .refused("the statement exceeds PostgreSQL's limit of 1 GB") }
        let copies = values.map { value in
            let copy = UnsafeMutableBufferPointer<CChar>.allocate(capacity: max(1, value.count))
            UnsafeMutableRawBufferPointer(copy).copyBytes(from: value)
            return copy
        }
        defer { for copy in copies { copy.deallocate() } }
        // Without parameters it may be several statements, in one transaction.
        let result =
            parameters.isEmpty
            ? PQexec(connection, statement)
            : PQexecParams(
                connection, statement, Int32(values.count), nil, copies.map { UnsafePointer($0.baseAddress) },
                values.map { Int32($0.count) }, values.map { _ in 1 }, 1)
        defer { PQclear(result) }
        guard [PGRES_TUPLES_OK, PGRES_COMMAND_OK].contains(PQresultStatus(result)) else { throw failure(result) }
        return (0..<PQntuples(result)).map { row in
            (0..<PQnfields(result)).map { column in
                guard PQgetisnull(result, row, column) == 0 else { return nil }
                let count = Int(PQgetlength(result, row, column))
                return Array(UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: count))
            }
        }
    }

    private func failure(_ result: OpaquePointer?) -> FluxSharedLogError {
        let text = "PostgreSQL: \(message)"
        // 67 is PG_DIAG_SQLSTATE, a macro that Swift does not see.
        let state = PQresultErrorField(result, 67).map { String(cString: $0) } ?? ""
        return Self.lasting.contains(String(state.prefix(2))) ? .refused(text) : .unavailable(text)
    }
}

/// What one task waits for, until it is there or the task is cancelled.
final class Answer<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, FluxSharedLogError>

    private struct State {
        var outcome: Outcome?
        var continuation: CheckedContinuation<Outcome, Never>?
    }

    private let state = Mutex(State())

    var isGiven: Bool { state.withLock { $0.outcome != nil } }

    /// The first counts.
    func give(_ outcome: Outcome) {
        let continuation = state.withLock { state in
            if state.outcome == nil { state.outcome = outcome }
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(returning: outcome)
    }

    // A server that stands still, or waits for its standby, says nothing: the statement goes on, and who waits for it is told.
    /// Waits until it is there: for so many bytes as are sent not for good, and with nil for as long as it takes.
    func get(sending size: Int? = nil) async throws(FluxSharedLogError) -> Value {
        // More than a lock is waited for: that has a cause of its own. And a line that takes 1 MB a second is fast enough.
        let limit = size.map { size in
            Task {
                try await Task.sleep(for: .seconds(8) + .milliseconds(size >> 10))
                give(.failure(.unavailable("PostgreSQL: no answer in time")))
            }
        }
        defer { limit?.cancel() }
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let outcome = state.withLock { state in
                    if state.outcome == nil { state.continuation = continuation }
                    return state.outcome
                }
                if let outcome { continuation.resume(returning: outcome) }
            }
        } onCancel: {
            give(.failure(.unavailable("the task was cancelled")))
        }.get()
    }
}

/// Hears of new entries by `NOTIFY`, and wakes who waits for them.
///
/// What it has belongs to the session's queue, and who waits to a lock.
final class Bell: @unchecked Sendable {
    let session: Session
    private let channel: String
    private var source: (any DispatchSourceRead)?
    private let waiting = Mutex<[UInt64: (key: String, ring: AsyncStream<Void>.Continuation)]>([:])
    private let last = Atomic<UInt64>(0)
    /// Why it hears nothing at the moment, for those who would wait for it.
    let trouble = Mutex<FluxSharedLogError?>(nil)

    init(_ session: Session, channel: String) { (self.session, self.channel) = (session, channel) }

    deinit { source?.cancel() }

    /// Rings from now on, for a key: once where it rang several times before somebody listened.
    func rings(for key: String) -> AsyncStream<Void> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { ring in
            let number = last.add(1, ordering: .relaxed).newValue
            waiting.withLock { $0[number] = (key, ring) }
            ring.onTermination = { [weak self] _ in _ = self?.waiting.withLock { $0.removeValue(forKey: number) } }
        }
    }

    private func ring(_ key: String?) {
        for (_, waiter) in waiting.withLock({ $0 }) where key == nil || waiter.key == key { waiter.ring.yield() }
    }

    func listen() { session.queue.async { self.hear() } }

    /// Hears until the connection is lost; then everybody looks for himself, until it stands again.
    private func hear() {
        let connection: OpaquePointer
        do throws(FluxSharedLogError) {
            // Quoted: a channel may be called as a word of SQL is.
            _ = try session.perform("LISTEN \"\(channel)\"", [])
            connection = try session.connected()
            trouble.withLock { $0 = nil }
        } catch {
            trouble.withLock { $0 = error }
            return hearLater()
        }
        ring(nil)
        // One of its own: libpq closes that of a lost connection at once, while it is still looked at.
        let descriptor = dup(PQsocket(connection))
        // It was lost since it was looked at.
        if descriptor < 0 { return hearLater() }
        let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: session.queue)
        source.setEventHandler { [weak self] in
            if PQconsumeInput(connection) != 1 { self?.source?.cancel() }
            while let notification = PQnotifies(connection) {
                self?.ring(String(cString: notification.pointee.extra))
                PQfreemem(notification)
            }
        }
        // The connection, which the handler reads, goes no sooner than nothing looks at it.
        source.setCancelHandler { [weak self, session] in
            withExtendedLifetime(session) { _ = close(descriptor) }
            self?.hearLater()
        }
        self.source = source
        source.activate()
    }

    private func hearLater() {
        ring(nil)
        session.queue.asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in self?.hear() }
    }
}
