import AsyncHTTPClient
import Foundation
import ProgramTesting
import Synchronization
import Testing

/// The program, as a process that is called over HTTP.
@Suite(.timeLimit(.minutes(3))) struct TodoServerTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("A todo that was put is on the list, a removed one is not, and other lists are unchanged")
    func changes() async throws {
        let server = try await Server(folder)
        #expect(try await server.ask("GET", "health").status == .ok)
        #expect(try await server.todos("groceries") == [:])
        #expect(try await server.put("groceries/milk", title: "  Milk ") == 201)
        #expect(try await server.put("groceries/eggs", title: "Eggs", isDone: true) == 201)
        #expect(try await server.put("groceries/eggs", title: "Eggs", isDone: true) == 204)
        #expect(try await server.put("house/window", title: "Window") == 201)
        #expect(
            try await server.todos("groceries") == [
                "milk": Item(title: "Milk", isDone: false), "eggs": Item(title: "Eggs", isDone: true),
            ])
        #expect(try await server.ask("DELETE", "lists/groceries/milk").status == .noContent)
        #expect(try await server.ask("DELETE", "lists/groceries/milk").status == .noContent)
        #expect(try await server.todos("groceries") == ["eggs": Item(title: "Eggs", isDone: true)])
        #expect(try await server.todos("house") == ["window": Item(title: "Window", isDone: false)])
        #expect(try await server.put("groceries/milk", title: "Milk") == 201, "it was removed, and is new")
        for path in ["health", "lists/house", "events/house"] {
            let (head, whole) = try await (server.ask("HEAD", path), server.ask("GET", path))
            #expect(head.status == .ok && head.headers["content-type"] == whole.headers["content-type"], "\(path)")
            for try await _ in head.body { Issue.record("a body of \(path)") }
        }
    }

    @Test(
        "A todo and a list can have any allowed name, also one that occurs in a path",
        arguments: ["events", "lists"])
    func names(name: String) async throws {
        let server = try await Server(folder)
        #expect(try await server.put("\(name)/\(name)", title: "Milk") == 201)
        #expect(try await server.todos(name) == [name: Item(title: "Milk", isDone: false)])
        var events = Events(try await server.ask("GET", "events/\(name)").body)
        #expect(try await events.next() == [name: Item(title: "Milk", isDone: false)])
        #expect(try await server.ask("DELETE", "lists/\(name)/\(name)").status == .noContent)
        #expect(try await server.todos(name) == [:])
    }

    @Test("A list that can never be saved again answers with status 500, and refers to the log")
    func lost() async throws {
        let server = try await Server(folder)
        #expect(try await server.put("groceries/milk", title: "Milk") == 201)
        let file = folder.url.appending(path: "lists/groceries")
        try Data("of somebody else".utf8).write(to: file)
        for _ in 1...2 {
            let answer = try await server.ask("PUT", "lists/groceries/eggs", #"{"title": "Eggs", "isDone": false}"#)
            #expect(answer.status == .internalServerError)
            let text = String(buffer: try await answer.body.collect(upTo: 10_000))
            #expect(text.contains("the list can no longer be saved; the log says why"), "\(text)")
        }
        #expect(try await server.put("groceries/bread", title: "Bread") == 500)
        #expect(try await server.todos("groceries")["bread"] == nil, "what can never be saved is not taken")
        #expect(try await server.put("house/window", title: "Window") == 201)
        server.command.send(SIGTERM)
        let end = await server.command.finish()
        #expect(end.status == 1, "It must not look as if all were saved.")
        #expect(end.errors.contains("\(file.path): something else has written the file"), "\(end.errors)")
        let last = try #require(end.errors.split(separator: "\n").last)
        #expect(last.contains("critical") && last.hasSuffix("some lists are not saved: groceries"), "\(last)")
    }

    @Test(
        "An unreadable list is reported until its file is repaired, and is never shown as empty",
        arguments: ["damaged", "cut off", "empty"])
    func unreadable(how: String) async throws {
        let file = folder.url.appending(path: "lists/groceries")
        let first = try await Server(folder)
        #expect(try await first.put("groceries/milk", title: "Milk") == 201)
        first.command.send(SIGTERM)
        #expect(await first.command.finish().status == 0)
        let whole = try Data(contentsOf: file)
        var broken = how == "empty" ? Data() : how == "cut off" ? whole.dropLast(9) : whole
        if how == "damaged" { broken[broken.count - 3] ^= 1 }
        try broken.write(to: file)

        let server = try await Server(folder)
        for (method, path, body) in [
            ("GET", "lists/groceries", nil), ("GET", "lists/groceries", nil), ("GET", "events/groceries", nil),
            ("PUT", "lists/groceries/eggs", #"{"title": "Eggs", "isDone": false}"#),
        ] {
            let answer = try await server.ask(method, path, body)
            try #require(answer.status == .internalServerError)
            let text = String(buffer: try await answer.body.collect(upTo: 10_000))
            #expect(text.contains("the list cannot be opened; the log has the reason and the path"), "\(text)")
        }
        let aside = URL(filePath: file.path + ".unreadable")
        #expect(try Data(contentsOf: aside) == broken)
        let told = server.command.errors.split(separator: "\n").filter { $0.contains(aside.path) }
        #expect(told.count == 4 && told.allSatisfy { $0.contains(" error ") }, "\(server.command.errors)")

        try whole.write(to: file)
        try FileManager.default.removeItem(at: aside)
        #expect(try await server.todos("groceries") == ["milk": Item(title: "Milk", isDone: false)])
        server.command.send(SIGTERM)
        #expect(await server.command.finish().status == 0)
    }

    @Test(
        "An invalid request is refused, and changes nothing",
        arguments: [
            ("groceries/milk", #"{"title": " ", "isDone": false}"#, 422),
            ("groceries/milk", #"{"title": "Milk"}"#, 400),
            ("groceries/milk", "milk", 400),
            ("groceries/MILK", #"{"title": "Milk", "isDone": false}"#, 400),
            ("..%2Fgroceries/milk", #"{"title": "Milk", "isDone": false}"#, 400),
        ])
    func refusals(path: String, body: String, status: Int) async throws {
        let server = try await Server(folder)
        #expect(try await server.ask("PUT", "lists/\(path)", body).status.code == status)
        #expect(try await server.todos("groceries") == [:])
    }

    @Test("A title may have 1,000 bytes, and a body 16 KiB", arguments: [(1_000, 201), (1_001, 422), (17_000, 413)])
    func lengths(length: Int, status: Int) async throws {
        let server = try await Server(folder)
        #expect(try await server.put("groceries/milk", title: String(repeating: "m", count: length)) == status)
        #expect(try await server.todos("groceries").count == (status == 201 ? 1 : 0))
    }

    @Test("A list accepts a thousand todos and refuses the next, however many come at once")
    func fullLists() async throws {
        let server = try await Server(folder)
        let refused = Noted()
        try await withThrowingDiscardingTaskGroup { group in
            for client in 0..<10 {
                group.addTask {
                    for number in 0..<101 {
                        switch try await server.put("long/\(client)-\(number)", title: "one of many") {
                        case 201: break
                        case 422: refused.insert("\(client)-\(number)")
                        case let status: Issue.record("answered \(status)")
                        }
                    }
                }
            }
        }
        #expect(refused.all.count == 10)
        let todos = try await server.todos("long")
        #expect(todos.count == 1_000)
        // An existing todo may still change.
        #expect(try await server.put("long/\(try #require(todos.keys.first))", title: "another") == 204)
    }

    @Test("A kill at any time loses no acknowledged todo")
    func kills() async throws {
        let answered = Noted()
        for round in 1...4 {
            let server = try await Server(folder)
            let enough = round * 40
            await withTaskGroup { group in
                for client in 0..<8 {
                    group.addTask {
                        for number in 0..<1_000 {
                            let (list, id) = ("list-\(client % 4)", "\(round)-\(client)-\(number)")
                            // The loop ends with the server.
                            guard (try? await server.put("\(list)/\(id)", title: id)) == 201 else { return }
                            if answered.insert("\(list)/\(id)") >= enough { server.command.send(SIGKILL) }
                        }
                    }
                }
            }
            #expect(await server.command.finish().status == SIGKILL)
        }
        let server = try await Server(folder)
        for list in 0..<4 {
            let todos = try await server.todos("list-\(list)")
            let there = Set(todos.keys.map { "list-\(list)/\($0)" })
            #expect(answered.all.filter { $0.hasPrefix("list-\(list)/") }.subtracting(there).isEmpty)
        }
    }

    @Test("A stream begins with the current list and sends every change; SIGTERM ends it, then the program")
    func streams() async throws {
        let server = try await Server(folder)
        #expect(try await server.put("groceries/milk", title: "Milk") == 201)
        let response = try await server.ask("GET", "events/groceries")
        #expect(response.headers.first(name: "content-type") == "text/event-stream")
        var events = Events(response.body)
        #expect(try await events.next() == ["milk": Item(title: "Milk", isDone: false)])
        #expect(try await server.put("groceries/milk", title: "Milk", isDone: true) == 204)
        #expect(try await events.next() == ["milk": Item(title: "Milk", isDone: true)])
        #expect(try await server.ask("DELETE", "lists/groceries/milk").status == .noContent)
        #expect(try await events.next() == [:])

        server.command.send(SIGTERM)
        #expect(try await events.next() == nil)
        let end = await server.command.finish()
        #expect(end.status == 0, "\(end.errors)")
        await #expect(throws: (any Error).self) { try await server.todos("groceries") }
    }

    @Test("An idle stream sends a heartbeat now and then")
    func beats() async throws {
        let server = try await Server(folder)
        let connection = try RawConnection(port: server.port)
        connection.send("GET /events/groceries HTTP/1.1\r\nHost: a\r\n\r\n")
        let text = try await connection.read { $0.contains(":\n\n") }
        #expect(text.contains(":\n\n"), "\(text)")
        server.command.send(SIGTERM)
        let end = await server.command.finish()
        #expect(end.status == 0, "\(end.errors)")
    }

    @Test(
        "A body in the request for a stream does not prevent the end of the server",
        arguments: [(50, 50, 200), (1_000_000, 70_000, 413), (1_000_000, 1_000_000, 413)])
    func streamsWithBodies(announced: Int, sent: Int, status: Int) async throws {
        let server = try await Server(folder)
        do {
            let connection = try RawConnection(port: server.port)
            connection.send("GET /events/groceries HTTP/1.1\r\nHost: a\r\nContent-Length: \(announced)\r\n\r\n")
            connection.send(String(repeating: "x", count: sent))
            let head = try await connection.read { $0.contains("\r\n\r\n") }
            #expect(head.hasPrefix("HTTP/1.1 \(status) "), "\(head)")
        }
        server.command.send(SIGTERM)
        let end = await server.command.finish()
        #expect(end.status == 0, "\(end.errors)")
    }

    @Test("A todo that is being put when SIGTERM comes is answered, or is absent")
    func ends() async throws {
        let server = try await Server(folder)
        let answered = Noted()
        await withTaskGroup { group in
            for client in 0..<8 {
                group.addTask {
                    for number in 0..<1_000 {
                        let id = "\(client)-\(number)"
                        guard (try? await server.put("busy/\(id)", title: id)) == 201 else { return }
                        if answered.insert(id) == 40 { server.command.send(SIGTERM) }
                    }
                }
            }
        }
        let end = await server.command.finish()
        #expect(end.status == 0, "\(end.errors)")
        let again = try await Server(folder)
        #expect(try await Set(again.todos("busy").keys) == answered.all)
    }

    @Test("A client that expects 100 Continue before its body gets it")
    func expectation() async throws {
        let server = try await Server(folder)
        let connection = try RawConnection(port: server.port)
        let body = #"{"title": "Milk", "isDone": false}"#
        connection.send(
            "PUT /lists/groceries/milk HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n"
                + "Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n")
        #expect(try await connection.read() == "HTTP/1.1 100 Continue\r\n\r\n")
        connection.send(body)
        #expect(try await connection.read()?.hasPrefix("HTTP/1.1 201 Created\r\n") == true)
        #expect(try await server.todos("groceries") == ["milk": Item(title: "Milk", isDone: false)])
    }

    @Test("--help names the environment variables; an argument is a usage error; neither starts the server")
    func help() async throws {
        let path = folder.url.appending(path: "lists").path
        let settings = ["FOLDER=\(path)", "PORT=0", Command.built("todo-server").path]
        let help = try await Command(program: URL(filePath: "/usr/bin/env"), settings + ["--help"]).finish()
        #expect(help.status == 0)
        for name in ["HOST", "PORT", "FOLDER"] { #expect(help.output.contains(name), "\(help.output)") }
        let mistake = try await Command(program: URL(filePath: "/usr/bin/env"), settings + ["lists"]).finish()
        #expect(mistake.status == 64 && mistake.errors.contains("Usage: todo-server"), "\(mistake)")
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("An invalid port gives one line in the log and status 1", arguments: ["abc", "70000", "-1", ""])
    func noPort(port: String) async throws {
        let (status, output, errors) = try await Server.start(folder, port: port).finish()
        #expect(status == 1 && output.isEmpty)
        #expect(errors.contains("PORT must be a number up to 65535") && errors.count { $0 == "\n" } == 1, "\(errors)")
    }

    @Test(
        "An invalid folder gives one line in the log and status 1",
        arguments: ["", "/dev/null", "/dev/null/x"])
    func noFolder(path: String) async throws {
        let (status, output, errors) = try await Server.start(path, port: "0").finish()
        #expect(status == 1 && output.isEmpty)
        #expect(errors.contains("FOLDER must be a writable folder, but \"\(path)\" is not"), "\(errors)")
        #expect(errors.count { $0 == "\n" } == 1, "\(errors)")
    }

    @Test("An IPv6 address is printed in a form that can be opened", .enabled(if: hasIPv6))
    func bracketed() async throws {
        let server = try await Server(folder, host: "::1")
        #expect(server.address.hasPrefix("http://[::1]:"), "\(server.address)")
        #expect(try await server.ask("GET", "health").status == .ok)
    }

    @Test("A port in use gives a critical line in the log and status 1")
    func takenPort() async throws {
        let server = try await Server(folder)
        let end = try await Server.start(TemporaryFolder(), port: "\(server.port)").finish()
        #expect(end.status == 1 && end.output.isEmpty)
        #expect(end.errors.contains("critical"), "\(end.errors)")
    }
}

/// Whether this machine has the address ::1.
private let hasIPv6 =
    (try? String(contentsOfFile: "/proc/net/if_inet6", encoding: .utf8))?.contains("00000000000000000000000000000001 ")
    == true

/// What clients have recorded, all at the same time.
private final class Noted: Sendable {
    private let entries = Mutex<Set<String>>([])

    var all: Set<String> { entries.withLock { $0 } }

    /// Records an entry, and returns how many there are now.
    @discardableResult func insert(_ entry: String) -> Int {
        entries.withLock { entries in
            entries.insert(entry)
            return entries.count
        }
    }
}

/// A todo as the server returns it.
private struct Item: Codable, Equatable {
    var title: String
    var isDone: Bool
}

/// A list as the server returns it.
private struct Page: Codable { var todos: [String: Item] }

/// The running program, and the address on which it listens.
private struct Server {
    /// A client that does not retry to connect to a server that has ended.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    let command: Command
    let address: String

    var port: Int { Int(address.split(separator: ":").last!)! }

    init(_ folder: TemporaryFolder, host: String = "127.0.0.1") async throws {
        command = try Self.start(folder, port: "0", host: host)
        address = try #require(await command.nextLine(), "\(command.errors)")
    }

    static func start(_ folder: TemporaryFolder, port: String, host: String = "127.0.0.1") throws -> Command {
        try start(folder.url.appending(path: "lists").path, port: port, host: host)
    }

    static func start(_ path: String, port: String, host: String = "127.0.0.1") throws -> Command {
        let settings = ["FOLDER=\(path)", "PORT=\(port)", "HOST=\(host)"]
        return try Command(program: URL(filePath: "/usr/bin/env"), settings + [Command.built("todo-server").path])
    }

    /// Sends a request, and waits for the answer for 30 seconds at most.
    func ask(_ method: String, _ path: String, _ body: String? = nil) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(url: "\(address)/\(path)")
        request.method = .init(rawValue: method)
        if let body { request.body = .bytes(Array(body.utf8)) }
        return try await Self.client.execute(request, timeout: .seconds(30))
    }

    /// Puts a todo, and returns the status of the answer.
    func put(_ path: String, title: String, isDone: Bool = false) async throws -> Int {
        let body = String(decoding: try JSONEncoder().encode(Item(title: title, isDone: isDone)), as: UTF8.self)
        return Int(try await ask("PUT", "lists/\(path)", body).status.code)
    }

    func todos(_ list: String) async throws -> [String: Item] {
        let response = try await ask("GET", "lists/\(list)")
        let body = try await response.body.collect(upTo: 1 << 20)
        return try JSONDecoder().decode(Page.self, from: Data(body.readableBytesView)).todos
    }
}

/// The events of a stream, in order.
private struct Events {
    private var chunks: HTTPClientResponse.Body.AsyncIterator
    private var text = ""

    init(_ body: HTTPClientResponse.Body) { chunks = body.makeAsyncIterator() }

    /// Waits for the next list; returns nil at the end.
    mutating func next() async throws -> [String: Item]? {
        while true {
            if let end = text.firstRange(of: "\n\n") {
                defer { text = String(text[end.upperBound...]) }
                let line = text[..<end.lowerBound]
                if line == ":" { continue }
                try #require(line.hasPrefix("data: "), "\(line)")
                return try JSONDecoder().decode(Page.self, from: Data(line.dropFirst(6).utf8)).todos
            }
            guard let chunk = try await chunks.next() else {
                try #require(text.isEmpty, "cut off: \(text)")
                return nil
            }
            text += String(decoding: chunk.readableBytesView, as: UTF8.self)
        }
    }
}
