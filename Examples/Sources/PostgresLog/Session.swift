import CPostgres
import Dispatch
import FluxCore
import FluxReplication
import Foundation
import Synchronization

/// Returns a number in the server's binary form.
func binary(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }

/// Returns an array of `bytea` in the server's binary form.
func binary(_ elements: [[UInt8]]) -> [UInt8] {
    // One dimension, no NULL, element type `bytea` (17), the count, counted from 1; then each element after its length.
    [1, 0, 17, Int32(elements.count), 1].flatMap { binary($0) } + elements.flatMap { binary(Int32($0.count)) + $0 }
}

/// A row of a statement's result: the bytes of each column, nil for NULL.
typealias Row = [[UInt8]?]

extension [UInt8]? {
    /// The value of a `bigint`.
    var number: UInt64 { (self ?? []).reduce(0) { $0 << 8 | UInt64($1) } }
}

/// A connection that is opened on demand and again after a loss; it runs one statement at a time.
final class Session: @unchecked Sendable {
    /// The bytes of the largest entry; a statement gets the time for these, unless its caller says how many.
    static let largest = 256 << 20

    private let address: String
    /// The queue of the connection and of all calls of libpq, because they block.
    let queue = DispatchQueue(label: "PostgresLog")
    private var connection: OpaquePointer?

    init(_ address: String) { self.address = address }

    deinit { PQfinish(connection) }

    /// Runs a statement with parameters in binary form; it may continue when the waiting task is cancelled.
    func run(
        _ statement: String, _ parameters: [[UInt8]] = [], sending size: Int = Session.largest
    ) async throws(FluxSharedLogError) -> [Row] {
        let answer = Answer<[Row]>()
        queue.async {
            if answer.isGiven { return }
            answer.give(Result { () throws(FluxSharedLogError) in try self.perform(statement, parameters) })
        }
        return try await answer.get(sending: size)
    }

    /// Returns an open connection; called on the queue.
    func connected() throws(FluxSharedLogError) -> OpaquePointer {
        if let connection, PQstatus(connection) == CONNECTION_OK { return connection }
        let isFirst = connection == nil
        PQfinish(connection)
        connection = connect()
        let text = "connecting to PostgreSQL: \(message)"
        if isFirst, PQstatus(connection) != CONNECTION_OK { try askForCode(text) }
        guard let connection, PQstatus(connection) == CONNECTION_OK else { throw .unavailable(text) }
        // The wait for a lock is limited. A statement has no limit, because the time to send it would count too, and a
        // large one over a slow line would be cut off at each attempt. A commit is on disk when it is acknowledged,
        // whatever the database's default is.
        let result = PQexec(
            connection,
            """
            SET client_min_messages = error; SET statement_timeout = 0; SET lock_timeout = '5s';
            SET synchronous_commit = on
            """)
        defer { PQclear(result) }
        guard PQresultStatus(result) == PGRES_COMMAND_OK else {
            // The next statement must not find an open connection without these settings.
            let failure = failure(result)
            PQfinish(connection)
            self.connection = nil
            throw failure
        }
        return connection
    }

    /// Connects with settings that reveal when the other side vanishes silently, which no limit on the server does.
    private func connect() -> OpaquePointer? {
        let options = PQconninfoParse(address, nil)
        PQconninfoFree(options)
        // libpq would take an unreadable address for a database's name, so this call reports the error in it.
        if options == nil { return PQconnectdb(address) }
        // The address comes last and overrides the other settings.
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
    /// Only at the first connection: settings that were right once may be right again.
    private func askForCode(_ text: String) throws(FluxSharedLogError) {
        let options = PQconninfoParse(address, nil)
        PQconninfoFree(options)
        if options == nil || PQconnectionNeedsPassword(connection) == 1 { throw .refused(text) }
        // A server's answer to a connection has no code unless one is requested, and a new connection cannot request
        // it. So it is reset.
        guard text.contains("FATAL") else { return }
        PQsetErrorVerbosity(connection, PQERRORS_SQLSTATE)
        PQreset(connection)
        if Self.lasting.contains(where: { message.contains("FATAL:  \($0)") }) { throw .refused(text) }
        PQsetErrorVerbosity(connection, PQERRORS_DEFAULT)
    }

    /// The classes of lasting errors: in the data, a constraint, the rights, or the statement.
    private static let lasting = ["0A", "22", "23", "28", "3D", "42", "54"]

    /// Runs a statement with parameters in binary form; called on the queue.
    func perform(_ statement: String, _ parameters: [[UInt8]] = []) throws(FluxSharedLogError) -> [Row] {
        let connection = try connected()
        // Where each parameter begins, and the last one ends, in one piece of memory. The byte before gives them an
        // address even if they are empty: a parameter without an address is NULL.
        let places = parameters.reduce(into: [1]) { $0.append($0.last! + $1.count) }
        // The limit of a message to the server.
        guard places.last! <= 1 << 30 else { throw .refused("the statement exceeds PostgreSQL's limit of 1 GB") }
        let bytes: [UInt8] = parameters.reduce(into: [0]) { $0 += $1 }
        let result = bytes.withUnsafeBytes { memory in
            // Without parameters it may be several statements, in one transaction.
            parameters.isEmpty
                ? PQexec(connection, statement)
                : PQexecParams(
                    connection, statement, Int32(parameters.count), nil,
                    places.dropLast().map { memory.baseAddress!.assumingMemoryBound(to: CChar.self) + $0 },
                    parameters.map { Int32($0.count) }, parameters.map { _ in 1 }, 1)
        }
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

/// A value that one task waits for, until it is given or the task is cancelled.
final class Answer<Value: Sendable>: Sendable {
    private let outcome = Mutex<Result<Value, FluxSharedLogError>?>(nil)
    private let latch = FluxLatch()

    var isGiven: Bool { outcome.withLock { $0 != nil } }

    /// Gives the outcome; only the first one counts.
    func give(_ outcome: Result<Value, FluxSharedLogError>) {
        self.outcome.withLock { $0 = $0 ?? outcome }
        latch.open()
    }

    /// Waits for the value, for a time that depends on the bytes sent or received.
    ///
    /// A server that hangs, or waits for its standby, sends nothing. The statement continues, and the caller gets an
    /// error.
    func get(sending size: Int) async throws(FluxSharedLogError) -> Value {
        // No task that sleeps: Swift would keep it until the time is up, and most answers come at once.
        let limit = DispatchSource.makeTimerSource()
        limit.setEventHandler { self.give(.failure(.unavailable("PostgreSQL: no answer in time"))) }
        // Longer than the wait for a lock, which has its own error; and 1 MB a second is fast enough for a line.
        limit.schedule(deadline: .now() + .seconds(8) + .milliseconds(size >> 10))
        limit.activate()
        defer { limit.cancel() }
        await latch.wait()
        // A wait that ends without an outcome was cancelled.
        give(.failure(.unavailable("the task was cancelled")))
        return try outcome.withLock { $0! }.get()
    }
}

/// Learns of new entries by `NOTIFY`, and wakes the readers that wait for them.
///
/// Its source belongs to the session's queue; a lock guards the waiting readers.
final class Bell: @unchecked Sendable {
    let session: Session
    private let channel: String
    private var source: (any DispatchSourceRead)?
    /// The waiting readers of each key, by number.
    private let waiting = Mutex<[String: [UInt64: AsyncStream<Void>.Continuation]]>([:])
    private let last = Atomic<UInt64>(0)
    /// Why it hears nothing at the moment, for readers that would wait for it.
    let trouble = Mutex<FluxSharedLogError?>(nil)

    init(_ session: Session, channel: String) { (self.session, self.channel) = (session, channel) }

    deinit { source?.cancel() }

    /// Returns the rings for a key from now on; several rings before the next wait become one.
    func rings(for key: String) -> AsyncStream<Void> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { ring in
            let number = last.add(1, ordering: .relaxed).newValue
            waiting.withLock { $0[key, default: [:]][number] = ring }
            ring.onTermination = { [weak self] _ in
                self?.waiting.withLock { waiting in
                    waiting[key]?[number] = nil
                    if waiting[key]?.isEmpty == true { waiting[key] = nil }
                }
            }
        }
    }

    private func ring(_ key: String) {
        for ring in waiting.withLock({ $0[key] ?? [:] }).values { ring.yield() }
    }

    private func ringAll() {
        for key in waiting.withLock({ $0 }).keys { ring(key) }
    }

    func listen() { session.queue.async { self.hear() } }

    /// Listens until the connection is lost; then readers look for themselves until it is restored.
    private func hear() {
        let connection: OpaquePointer
        do throws(FluxSharedLogError) {
            // Quoted, because a channel's name may be an SQL keyword.
            _ = try session.perform("LISTEN \"\(channel)\"")
            connection = try session.connected()
            trouble.withLock { $0 = nil }
        } catch {
            trouble.withLock { $0 = error }
            return hearLater()
        }
        ringAll()
        // A copy, because libpq closes a lost connection's descriptor at once, while the source still uses it. Programs
        // that this one starts do not get it: they would keep the connection open.
        let descriptor = fcntl(PQsocket(connection), F_DUPFD_CLOEXEC, 0)
        // The connection was lost after it was checked, or no descriptor is left.
        if descriptor < 0 { return hearLater() }
        let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: session.queue)
        source.setEventHandler { [weak self] in
            if PQconsumeInput(connection) != 1 { self?.source?.cancel() }
            while let notification = PQnotifies(connection) {
                self?.ring(String(cString: notification.pointee.extra))
                PQfreemem(notification)
            }
        }
        // Keeps the session, whose connection the handler reads, until the source no longer uses it.
        source.setCancelHandler { [weak self, session] in
            withExtendedLifetime(session) { _ = close(descriptor) }
            self?.hearLater()
        }
        self.source = source
        source.activate()
    }

    private func hearLater() {
        ringAll()
        session.queue.asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in self?.hear() }
    }
}
