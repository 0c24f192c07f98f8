import Foundation
import NIOCore
import ProgramTesting
import Testing

@testable import live_board

/// What a browser sends, and what it is answered.
@Suite struct CommandTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("A fresh start has a welcome board, and serves its page with all files")
    func pages() async throws {
        let server = try await Server(folder)
        let (revision, board) = try await server.board()
        #expect(revision == 1 && board.lists.map(\.title) == ["To do", "Doing", "Done"] && board.cardCount > 2)
        for (path, type) in [
            ("/", "text/html"), ("/b/welcome", "text/html"), ("/style.css", "text/css"),
            ("/board.js", "text/javascript"), ("/icon.svg", "image/svg+xml"),
        ] {
            let page = try await server.ask("GET", path)
            #expect(page.status == 200 && page.headers["content-type"]?.hasPrefix(type) == true, "\(path)")
            #expect(page.headers["content-security-policy"]?.contains("default-src 'self'") == true, "\(path)")
            #expect(page.headers["x-content-type-options"] == "nosniff", "\(path)")
            let tag = try #require(page.headers["etag"])
            for known in [tag, "W/\(tag)", "\"a,b\", W/\"c\",\(tag)", "*"] {
                let again = try await server.ask("GET", path, headers: ["If-None-Match": known])
                #expect(again.status == 304 && again.body.isEmpty && again.headers["etag"] == tag, "\(path) \(known)")
            }
            for other in ["\"a\"", "W/\"a\", \"*\"", tag.replacing("\"", with: ""), ""] {
                let again = try await server.ask("GET", path, headers: ["If-None-Match": other])
                #expect(again.status == 200 && !again.body.isEmpty, "\(path) \(other)")
            }
            let head = try await server.ask("HEAD", path)
            #expect(head.status == 200 && head.body.isEmpty, "\(path)")
        }
        #expect(try await server.ask("GET", "/b/unknown").status == 404)
        #expect(try await server.ask("GET", "/health").text == #"{"status":"ok"}"#)
    }

    @Test("Every command changes the board, and its answer has the new revision")
    func commands() async throws {
        let server = try await Server(folder)
        let list = try await server.done(#"{"type":"addList","title":" New  "}"#)
        let id = try #require(list.id)
        #expect(list.revision == 2)
        let card = try #require(try await server.done(#"{"type":"addCard","list":"\#(id)","title":"A"}"#).id)
        let edit = #"{"type":"editCard","card":"\#(card)","title":"<b>B</b>","text":"t\",}","revision":3}"#
        #expect(try await server.done(edit).revision == 4)
        for command in [
            #"{"type":"vote","card":"\#(card)","on":true}"#,
            #"{"type":"moveCard","card":"\#(card)","list":"l3","index":0}"#,
            #"{"type":"renameList","list":"l1","title":"Later"}"#,
            #"{"type":"moveList","list":"\#(id)","index":0}"#,
            #"{"type":"removeList","list":"l2"}"#,
            #"{"type":"removeCard","card":"c4"}"#,
            #"{"type":"rename","title":"Ours"}"#,
        ] { try await server.done(command) }
        // A rename to the current title is not a change.
        #expect(try await server.done(#"{"type":"rename","title":"Ours"}"#).revision == 11)

        let (revision, board) = try await server.board()
        #expect(revision == 11 && board.title == "Ours")
        #expect(board.lists.map(\.title) == ["New", "Later", "Done"])
        #expect(board.lists[1].cards.map(\.id) == ["c5"])
        let moved = try #require(board.lists[2].cards.first)
        #expect(moved == Board.Card(id: card, title: "<b>B</b>", text: "t\",}", voters: ["somebody"], revision: 4))

        try await server.done(#"{"type":"undo"}"#)
        #expect(try await server.board().board.title == "Welcome")
        #expect(try await server.command(#"{"type":"undo"}"#, by: "somebody-else").problem == "nothing-to-undo")
    }

    @Test("A client that expects 100 Continue before its body gets it, and then its answer")
    func expectation() async throws {
        let server = try await Server(folder)
        let connection = try RawConnection(port: server.port)
        for revision in 2...3 {
            let body = #"{"type":"rename","title":"\#(revision)"}"#
            connection.send(
                "POST /boards/welcome/commands?client=somebody HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                    + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n")
            #expect(try await connection.read() == "HTTP/1.1 100 Continue\r\n\r\n")
            connection.send(body)
            let answer = try await connection.read { $0.hasSuffix("}") }
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(answer)")
            #expect(try await server.board().revision == revision)
        }
        let old = try RawConnection(port: server.port)
        let body = #"{"type":"rename","title":"4"}"#
        old.send(
            "POST /boards/welcome/commands?client=somebody HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n" + body)
        #expect(try await old.read()?.contains(" 200 OK\r\n") == true, "HTTP/1.0 knows nothing of going on.")
    }

    @Test("A client of HTTP/1.0 gets a stream that is not chunked, and ends with the connection")
    func oldClients() async throws {
        let server = try await Server(folder)
        let old = try RawConnection(port: server.port)
        old.send("GET /boards/welcome/events HTTP/1.0\r\nHost: a\r\n\r\n")
        let answer = try await old.read { $0.contains("event: here") }
        #expect(answer.hasPrefix("HTTP/1.0 200 OK\r\n"), "\(answer)")
        #expect(!answer.lowercased().contains("transfer-encoding"), "\(answer)")
        #expect(answer.contains("\r\n\r\nretry: "), "\(answer)")
        async let status = server.end()
        while try await old.read() != nil {}
        #expect(await status == 0)
    }

    @Test("A client that mixes requests of HTTP/1.0 and HTTP/1.1 gets an answer to both")
    func mixedVersions() async throws {
        let server = try await Server(folder)
        let mixed = try RawConnection(port: server.port)
        mixed.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        let answer = try await mixed.read { $0.components(separatedBy: " 200 OK\r\n").count > 2 }
        let second = try #require(answer.range(of: "HTTP/1.1 200 OK\r\n"), "\(answer)")
        #expect(answer.hasPrefix("HTTP/1.0 200 OK\r\n") && answer[..<second.lowerBound].hasSuffix("}"), "\(answer)")
    }

    @Test(
        "An unreadable head is answered with a problem, and the connection is closed",
        arguments: [
            "FOO BAR", "GET /\u{fc} HTTP/1.1\r\nHost: a", "GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: -5",
            "GET /health HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 100_000))",
        ])
    func unreadable(head: String) async throws {
        let server = try await Server(folder)
        let connection = try RawConnection(port: server.port)
        connection.send(head + "\r\n\r\n")
        let answer = try await connection.readToEnd()
        #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(answer)")
        #expect(answer.contains("application/problem+json") && answer.contains("urn:live-board:malformed"), "\(answer)")
        #expect(answer.hasSuffix("}"), "\(answer)")
    }

    @Test("Boards are created, listed by their current titles, and known after a restart")
    func boards() async throws {
        let server = try await Server(folder)
        let made = try await server.ask("POST", "/boards", #"{"title":"Plans"}"#)
        let id = try #require(made.fields?.id)
        #expect(made.status == 201 && BoardID(rawValue: id) != nil)
        #expect(try await server.board(id).board == Board(title: "Plans", lists: []))
        try await server.done(#"{"type":"rename","title":"Plans, new"}"#, on: id)
        try await eventually("the new title") {
            try await server.ask("GET", "/boards").fields?.boards?.contains(["id": id, "title": "Plans, new"]) == true
        }
        #expect(await server.end() == 0)
        let next = try await Server(folder)
        let boards = try await next.ask("GET", "/boards").fields?.boards
        #expect(boards == [["id": id, "title": "Plans, new"], ["id": "welcome", "title": "Welcome"]])
        #expect(try await next.board(id).board.title == "Plans, new")
    }

    @Test(
        "Concurrent requests create no more boards than the limit, and refused ones leave nothing")
    func crowded() async throws {
        let server = try await Server(folder, "--boards", "4")
        let answers = try await withThrowingTaskGroup { group in
            for number in 1...30 {
                group.addTask { try await server.ask("POST", "/boards", #"{"title":"\#(number)"}"#) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.filter { $0.status == 201 }.count == 3)
        #expect(answers.filter { $0.status == 507 && $0.problem == "full" }.count == 27)
        let boards = try #require(try await server.ask("GET", "/boards").fields?.boards)
        #expect(await server.end() == 0)
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.url.appending(component: "data").path)
        #expect(
            Set(files.filter { $0.hasPrefix("board-") }) == Set(boards.map { "board-\($0["id"] ?? "").sqlite" }))
    }

    @Test("An unused board is evicted, and comes back unchanged")
    func idle() async throws {
        let server = try await Server(folder, "--idle", "0", "--open-boards", "1")
        let isPutAway = { @Sendable in
            try await server.ask("GET", "/metrics").text.contains("\nlive_board_open_boards 0\n")
        }
        try await server.done(#"{"type":"rename","title":"A"}"#)
        try await eventually("the board is put away", isPutAway)
        #expect(try await server.board().board.title == "A")
        #expect(try await server.done(#"{"type":"rename","title":"B"}"#).revision == 3)
    }

    @Test("A board that is evicted right after a rename is listed by its new title")
    func renamedAndPutAway() async throws {
        let server = try await Server(folder, "--idle", "0")
        for number in 1...40 {
            let id = try #require(try await server.ask("POST", "/boards", #"{"title":"old"}"#).fields?.id)
            try await server.done(#"{"type":"rename","title":"\#(number)"}"#, on: id)
        }
        try await eventually("all boards are put away") {
            try await server.ask("GET", "/metrics").text.contains("\nlive_board_open_boards 0\n")
        }
        let boards = try #require(try await server.ask("GET", "/boards").fields?.boards)
        #expect(boards.count == 41 && !boards.contains { $0["title"] == "old" })
    }

    @Test("A wrong request is answered with a problem, and changes nothing")
    func problems() async throws {
        let server = try await Server(folder, "--boards", "1", "--cards", "5", "--board-bytes", "5000")
        let path = "/boards/welcome/commands?client=somebody"
        let (long, most) = (String(repeating: "x", count: 201), String(repeating: "x", count: 4_000))
        let deep = String(repeating: "[", count: 8_000)
        try await server.done(#"{"type":"addCard","list":"l1","title":"The fifth"}"#)
        let before = try await server.ask("GET", "/boards/welcome").text
        for (status, problem, method, path, body) in [
            (400, "malformed", "POST", path, "{"), (400, "malformed", "POST", path, ""),
            (400, "malformed", "POST", path, deep), (400, "malformed", "POST", path, "[1]"),
            (400, "malformed", "POST", path, #"{"type":"addList","title":"x\",]", } "#),
            (400, "malformed", "POST", path, #"{"type":"addList","title":"x","more":[1 ,]}"#),
            (400, "malformed", "POST", path, #"{"type":"explode"}"#),
            (400, "malformed", "POST", path, #"{"type":"addCard","list":"l1"}"#),
            (400, "malformed", "POST", path, #"{"type":"vote","card":"c4","on":1}"#),
            (400, "malformed", "POST", path, #"{"type":"moveList","list":"l1","index":1e99}"#),
            (400, "malformed", "POST", "/boards", #"{"name":"x"}"#),
            (404, "unknown-board", "GET", "/boards/nothing", nil), (404, "unknown-board", "GET", "/boards/UP", nil),
            (404, "unknown-board", "GET", "/boards/..%2f..%2fetc", nil),
            (404, "unknown-board", "GET", "/boards/..%2fcatalogue/events", nil),
            (404, "unknown-board", "GET", "/boards/\(long)", nil),
            (404, "unknown-board", "POST", "/boards/no/commands?client=somebody", #"{"type":"undo"}"#),
            (404, "unknown-list", "POST", path, #"{"type":"removeList","list":"l9"}"#),
            (404, "unknown-list", "POST", path, #"{"type":"moveCard","card":"c4","list":"l9","index":0}"#),
            (404, "unknown-card", "POST", path, #"{"type":"removeCard","card":"l1"}"#),
            (404, "not-found", "GET", "/nothing", nil), (404, "not-found", "GET", "/boards/welcome/x", nil),
            (404, "not-found", "POST", "/style.css/x", "{}"),
            (405, "method", "GET", path, nil), (405, "method", "DELETE", "/boards/welcome", nil),
            (405, "method", "POST", "/", "{}"), (405, "method", "PATCH", "/metrics", "{}"),
            (405, "method", "PROPFIND", "/boards", nil), (405, "method", "QUERY", path, "{}"),
            (409, "stale", "POST", path, #"{"type":"editCard","card":"c4","title":"x","text":"","revision":0}"#),
            (409, "nothing-to-undo", "POST", path.replacing("somebody", with: "nobody-yet"), #"{"type":"undo"}"#),
            (413, "too-large", "POST", path, String(repeating: " ", count: 1 << 20)),
            (422, "invalid", "POST", path, #"{"type":"rename","title":"  \n "}"#),
            (422, "invalid", "POST", path, #"{"type":"rename","title":"\u2060 \u200d"}"#),
            (422, "invalid", "POST", path, #"{"type":"rename","title":"\u0007"}"#),
            (422, "invalid", "POST", "/boards", #"{"title":"\u200d"}"#),
            (422, "invalid", "POST", path, #"{"type":"rename","title":"\#(long)"}"#),
            (422, "invalid", "POST", path, #"{"type":"moveCard","card":"c4","list":"l2","index":-1}"#),
            (422, "invalid", "POST", "/boards/welcome/commands", #"{"type":"undo"}"#),
            (422, "invalid", "POST", "/boards/welcome/commands?client=short", #"{"type":"undo"}"#),
            (422, "invalid", "POST", "/boards/welcome/commands?client=no%20spaces", #"{"type":"undo"}"#),
            (422, "invalid", "GET", "/boards/welcome/events?client=somebody&name=\(long)", nil),
            (422, "invalid", "POST", "/boards", #"{"title":""}"#),
            (507, "full", "POST", "/boards", #"{"title":"A second"}"#),
            (507, "full", "POST", path, #"{"type":"addCard","list":"l1","title":"The sixth"}"#),
            (
                507, "full", "POST", path,
                #"{"type":"editCard","card":"c4","title":"x","text":"\#(most)","revision":1}"#
            ),
        ] as [(Int, String, String, String, String?)] {
            let answer = try await server.ask(method, path, body)
            let what = "\(method) \(path) \((body ?? "").prefix(80)): \(answer.text)"
            #expect(answer.status == status && answer.problem == problem, "\(what)")
            #expect(answer.fields?.title?.isEmpty == false, "\(what)")
            if status == 405 { #expect(answer.headers["allow"]?.isEmpty == false, "\(what)") }
            if problem == "stale" { #expect(answer.fields?.card?.id == "c4" && answer.fields?.revision == 2) }
        }
        let head = try RawConnection(port: server.port)
        head.send("HEAD /boards/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        let said = try await head.readToEnd()
        #expect(said.hasPrefix("HTTP/1.1 404 ") && said.hasSuffix("\r\n\r\n"), "\(said)")
        let media = try await server.ask("POST", path, #"{"type":"undo"}"#, type: "text/plain")
        #expect(media.status == 415 && media.problem == "media-type")
        #expect(try await server.ask("GET", "/boards/welcome").text == before)
        #expect(try await server.ask("GET", "/boards").fields?.boards?.count == 1)
    }

    @Test("Errors of other parts keep their status, and a problem is one line in a log")
    func otherErrors() throws {
        let tooLarge = try #require(Problem(NIOTooManyBytesError(maxBytes: 0)))
        #expect(tooLarge.status == .contentTooLarge)
        #expect("\(Problem.busy)" == "Another edit of this card is in progress. Nothing was changed. Try again.")
    }

    @Test("One of several concurrent edits of a card succeeds, and the others are busy or stale")
    func edits() async throws {
        let server = try await Server(folder)
        try await eventually("an edit that comes while another is on its way to the disk") {
            let (before, board) = try await server.board()
            let revision = try #require(board.card("c4")?.revision)
            let answers = try await withThrowingTaskGroup(of: Server.Answer.self) { group in
                for number in 1...40 {
                    let edit =
                        #"{"type":"editCard","card":"c4","title":"\#(before) \#(number)","text":"","revision":\#(revision)}"#
                    group.addTask { try await server.command(edit, by: "client-\(number)") }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.filter { $0.status == 200 }.count == 1)
            #expect(answers.allSatisfy { $0.status == 200 || ["busy", "stale"].contains($0.problem) })
            #expect(try await server.board().revision == before + 1)
            return answers.contains { $0.status == 429 && $0.problem == "busy" }
        }
    }

    @Test("An overloaded server says so, and performs every command that it does not refuse")
    func overloaded() async throws {
        let server = try await Server(folder, "--commands", "1", "--waiting", "2")
        let answers = try await withThrowingTaskGroup(of: Server.Answer.self) { group in
            for number in 1...200 {
                let add = #"{"type":"addCard","list":"l1","title":"\#(number)"}"#
                group.addTask { try await server.command(add, by: "client-\(number)") }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let done = answers.filter { $0.status == 200 }.count
        #expect(answers.allSatisfy { $0.status == 200 || $0.status == 503 && $0.problem == "overloaded" })
        #expect((1..<200).contains(done), "\(done) were done")
        #expect(try await server.board().board.cardCount == 4 + done)
    }
}
