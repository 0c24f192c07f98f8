import AsyncHTTPClient
import Foundation
import NIOCore
import ProgramTesting
import Testing

@testable import live_board

/// The program, started on its own port, and called as browsers call it.
final class Server: Sendable {
    /// Uses a connection for each request, because the server might close an idle one just when it is used again.
    static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration()
        configuration.maximumUsesPerConnection = 1
        // As many connections at once as a test needs; the default is 8.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    let program: Command
    let address: String

    var port: Int { Int(address.split(separator: ":").last!)! }

    convenience init(_ folder: TemporaryFolder, _ options: String...) async throws {
        try await self.init(folder, options)
    }

    init(_ folder: TemporaryFolder, _ options: [String]) async throws {
        program = try Command(
            program: Command.built("live-board"),
            ["--port", "0", "--data", folder.url.appending(component: "data").path] + options)
        address = try #require(await program.nextLine(), "it did not start: \(program.errors)")
    }

    /// Starts the program with files limited to this many blocks of 512 bytes, as on a full disk.
    convenience init(_ folder: TemporaryFolder, blocks: Int, _ options: String...) async throws {
        try await self.init(folder, after: "trap '' XFSZ; ulimit -S -f \(blocks)", options)
    }

    /// Starts the program after shell commands, which set its limits.
    init(_ folder: TemporaryFolder, after commands: String, _ options: [String] = []) async throws {
        program = try Command(
            program: URL(filePath: "/bin/sh"),
            ["-c", "\(commands); exec \"$@\"", "sh", Command.built("live-board").path]
                + ["--port", "0", "--data", folder.url.appending(component: "data").path] + options)
        address = try #require(await program.nextLine(), "it did not start: \(program.errors)")
    }

    /// Makes the program's files unwritable, as on a full disk, or writable again; it must be started with `blocks`.
    func setDisk(isFull: Bool) async throws {
        let limit = try Command(
            program: URL(filePath: "/usr/bin/env"),
            ["prlimit", "--pid", "\(program.identifier)", "--fsize=\(isFull ? "0" : "unlimited"):unlimited"])
        let result = await limit.finish()
        try #require(result.status == 0, "\(result.errors)")
    }

    /// Ends the program with a signal, and returns its exit status.
    @discardableResult func end(_ signal: Int32 = SIGTERM) async -> Int32 {
        program.send(signal)
        return await program.finish().status
    }

    // MARK: - Requests

    struct Answer: Sendable {
        var status: Int
        var headers: [String: String]
        var body: Data

        var text: String { String(decoding: body, as: UTF8.self) }
        var fields: Fields? { try? JSONDecoder().decode(Fields.self, from: body) }
        /// The kind of problem that it reports.
        var problem: String? {
            guard headers["content-type"] == "application/problem+json", fields?.status == status else { return nil }
            return fields?.type.flatMap { $0.hasPrefix("urn:live-board:") ? String($0.dropFirst(15)) : nil }
        }
    }

    /// The fields of answers; each answer has some of them.
    struct Fields: Decodable, Sendable {
        var id, type, title, detail: String?
        var status, revision: Int?
        var card: Board.Card?
        var board: Board?
        var boards: [[String: String]]?
    }

    func ask(
        _ method: String = "GET", _ path: String, _ body: String? = nil, type: String = "application/json",
        headers: [String: String] = [:]
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: address + path)
        request.method = .RAW(value: method)
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let body {
            request.headers.add(name: "Content-Type", value: type)
            request.body = .bytes(ByteBuffer(string: body))
        }
        let response = try await Self.client.execute(request, timeout: .seconds(100))
        let bytes = try await response.body.collect(upTo: 16 << 20)
        return Answer(
            status: Int(response.status.code),
            headers: Dictionary(
                response.headers.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { "\($0), \($1)" }),
            body: Data(bytes.readableBytesView))
    }

    func command(_ body: String, by client: String = "somebody", on board: String = "welcome") async throws -> Answer {
        try await ask("POST", "/boards/\(board)/commands?client=\(client)", body)
    }

    /// Performs a command that has to succeed.
    @discardableResult func done(
        _ body: String, by client: String = "somebody", on board: String = "welcome",
        at location: SourceLocation = #_sourceLocation
    ) async throws -> Fields {
        let answer = try await command(body, by: client, on: board)
        #expect(answer.status == 200, "\(body): \(answer.text)", sourceLocation: location)
        return try #require(answer.fields, sourceLocation: location)
    }

    func board(_ id: String = "welcome") async throws -> (revision: Int, board: Board) {
        let fields = try #require(try await ask("GET", "/boards/\(id)").fields)
        return (try #require(fields.revision), try #require(fields.board))
    }

    func watch(_ query: String = "", on board: String = "welcome", last: KnownRevision? = nil) async throws
        -> EventStream
    {
        try await EventStream("\(address)/boards/\(board)/events\(query)", last: last)
    }
}

/// A stream of server-sent events, read one by one, by one task at a time.
final class EventStream: @unchecked Sendable {
    struct Event: Sendable {
        var name = "message"
        /// The id with which a client returns.
        var known: KnownRevision?
        var data = ""

        var id: Int? { known?.revision }
        var json: Fields { get throws { try JSONDecoder().decode(Fields.self, from: Data(data.utf8)) } }
    }

    /// The fields of events; each event has some of them.
    struct Fields: Decodable {
        var revision, count: Int?
        var client: String?
        var names: [String]?
        var board: Board?
        var change: BoardChange?
    }

    private let response: HTTPClientResponse
    private var bytes: HTTPClientResponse.Body.AsyncIterator
    private var unread = ByteBuffer()
    /// The number of unread bytes that are known to have no line end.
    private var searched = 0
    private var event = Event()

    init(_ address: String, last: KnownRevision?) async throws {
        var request = HTTPClientRequest(url: address)
        if let last { request.headers.add(name: "Last-Event-ID", value: "\(last)") }
        response = try await Server.client.execute(request, deadline: .distantFuture)
        bytes = response.body.makeAsyncIterator()
        #expect(response.status == .ok)
        #expect(response.headers.first(name: "Content-Type") == "text/event-stream")
    }

    /// The next event, comments left out; nil at the end of the stream.
    func next() async throws -> Event? {
        try await within(100, "the next event") { try await self.read() }
    }

    /// The next event with a name.
    func next(_ name: String) async throws -> Event {
        while let event = try await next() { if event.name == name { return event } }
        throw Missing("the stream has ended before \(name)")
    }

    /// Skips events until one meets a condition.
    func until(_ what: String, _ isThere: @Sendable (Event) throws -> Bool) async throws {
        while let event = try await next() { if try isThere(event) { return } }
        throw Missing("the stream has ended before \(what)")
    }

    private func read() async throws -> Event? {
        while true {
            while let line = nextLine() {
                if line.hasPrefix("event: ") { event.name = String(line.dropFirst(7)) }
                if line.hasPrefix("id: ") { event.known = KnownRevision(String(line.dropFirst(4))) }
                if line.hasPrefix("data: ") { event.data = String(line.dropFirst(6)) }
                guard line.isEmpty else { continue }
                defer { event = Event() }
                if !event.data.isEmpty { return event }
            }
            guard var more = try await bytes.next() else { return nil }
            unread.writeBuffer(&more)
        }
    }

    private func nextLine() -> String? {
        let length = unread.withUnsafeReadableBytes { bytes -> Int? in
            // With memchr, because an event of a large board comes in thousands of pieces.
            let rest = UnsafeRawBufferPointer(rebasing: bytes[searched...])
            guard let start = rest.baseAddress, let end = memchr(start, 10, rest.count) else { return nil }
            return searched + (UnsafeRawPointer(end) - start)
        }
        guard let length else {
            searched = unread.readableBytes
            return nil
        }
        searched = 0
        defer { unread.moveReaderIndex(forwardBy: 1) }
        return unread.readString(length: length)
    }
}

/// Reports what did not come.
struct Missing: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Waits for something, for at most this many seconds.
func within<Value: Sendable>(
    _ seconds: Double, _ what: String, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: .seconds(seconds))
            throw Missing("\(what) did not come within \(seconds) seconds")
        }
        defer { group.cancelAll() }
        return try await group.next()!
    }
}

/// Checks repeatedly until a condition holds, for at most this many seconds.
func eventually(
    _ what: String, within seconds: Double = 100, _ isSo: @escaping @Sendable () async throws -> Bool
) async throws {
    try await within(seconds, what) {
        while try await !isSo() { try await Task.sleep(for: .milliseconds(10)) }
    }
}
