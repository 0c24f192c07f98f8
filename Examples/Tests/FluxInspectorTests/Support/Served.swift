import AsyncHTTPClient
import FluxInspector
import Foundation
import Hummingbird
import HummingbirdTesting
import NIOCore
import Testing

/// What the tests read from the inspector's answers.
struct ShownRow: Decodable {
    var number: UInt64
    var kind, type, text: String
    var store: Int?
    var dispatcher: String?
    var origin, revision, nanoseconds: UInt64?
    var error: String?
}

struct ShownDetail: Decodable {
    var line: ShownRow
    var arguments: String
    var difference: String?
    var hasState: Bool
}

struct ShownStore: Decodable {
    var id: Int
    var name, type: String
    var dispatcher: String?
    var revision: UInt64
}

struct ShownRows: Decodable {
    var missed: UInt64
    var rows: [ShownRow]
}

/// Reports what did not arrive in time.
struct Late: Error, CustomStringConvertible {
    let description: String
}

/// Runs a body, and fails with a message if it takes too long even for a busy machine.
func within<Value: Sendable>(
    _ what: String, seconds: Int = 120, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: .seconds(seconds))
            throw Late(description: "\(what): not within \(seconds) s")
        }
        defer { group.cancelAll() }
        return try #require(await group.next())
    }
}

/// Checks repeatedly until a condition holds.
func eventually(_ what: String, _ isSo: @escaping @Sendable () async throws -> Bool) async throws {
    try await within(what) {
        while try await !isSo() { try await Task.sleep(for: .milliseconds(5)) }
    }
}

/// An inspector on a port of this machine.
struct Served: Sendable {
    let port: Int

    func request(_ path: String, headers: [String: String] = [:]) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        return request
    }

    func get(_ path: String, headers: [String: String] = [:]) async throws -> HTTPClientResponse {
        try await HTTPClient.shared.execute(request(path, headers: headers), timeout: .seconds(120))
    }

    func text(_ path: String) async throws -> String {
        String(buffer: try await get(path).body.collect(upTo: 10_000_000))
    }

    func json<Value: Decodable>(_ path: String, as type: Value.Type = Value.self) async throws -> Value {
        try JSONDecoder().decode(type, from: Data(try await text(path).utf8))
    }

    /// Starts reading the stream.
    func stream(after id: String? = nil) async throws -> EventStream {
        let response = try await get("/inspect/stream", headers: id.map { ["Last-Event-ID": $0] } ?? [:])
        #expect(response.status == .ok)
        #expect(response.headers.first(name: "Content-Type") == "text/event-stream")
        return EventStream(response.body)
    }
}

/// Reads server-sent events; used by one task at a time.
final class EventStream: @unchecked Sendable {
    private var bytes: HTTPClientResponse.Body.AsyncIterator
    private var text = ""
    /// The id of the event that was read last.
    private(set) var id: String?

    init(_ body: HTTPClientResponse.Body) { bytes = body.makeAsyncIterator() }

    /// The next event that has data.
    func next() async throws -> (name: String, data: Data) {
        while true {
            while let end = text.firstRange(of: "\n\n") {
                let lines = text[..<end.lowerBound].split(separator: "\n")
                text = String(text[end.upperBound...])
                func field(_ name: String) -> String? {
                    lines.first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
                }
                id = field("id") ?? id
                if let data = field("data") { return (field("event") ?? "message", Data(data.utf8)) }
            }
            guard let more = try await bytes.next() else { throw Late(description: "the stream has ended") }
            text += String(buffer: more)
        }
    }

    /// The next event with a name.
    func next<Value: Decodable>(_ name: String, as type: Value.Type = Value.self) async throws -> Value {
        while true {
            let event = try await next()
            if event.name == name { return try JSONDecoder().decode(type, from: event.data) }
        }
    }

    /// Reads rows until one meets a condition; returns all rows that were read.
    func rows(until isLast: @escaping @Sendable (ShownRow) -> Bool) async throws -> [ShownRow] {
        try await within("the row that was waited for") { [self] in
            var rows: [ShownRow] = []
            while !rows.contains(where: isLast) { rows += try await next("rows", as: ShownRows.self).rows }
            return rows
        }
    }
}

/// Serves an inspector while a test runs, and then shuts down in order, even if clients still read.
func serving(
    _ inspector: FluxInspector, token: String? = nil, _ test: @escaping @Sendable (Served) async throws -> Void
) async throws {
    let router = Router(context: FluxInspectorContext.self)
    inspector.mount(on: router, token: token)
    var configuration = ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0))
    configuration.serverName = "tests"
    let application = Application(router: router, configuration: configuration)
    try await within("the test and the end of its server", seconds: 150) {
        try await application.test(.live) { client in try await test(Served(port: try #require(client.port))) }
    }
}
