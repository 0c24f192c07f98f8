import FluxCore
import Foundation
import ProgramTesting
import SQLiteLog
import Synchronization
import Testing

@testable import live_board

/// How the program starts and ends, even if it is killed, and what hostile clients cannot prevent.
///
/// It is killed 6 times; `CRASHES=500 swift test --package-path Examples --filter LiveBoardTests` does that more often.
@Suite(.serialized) struct EndTests {
    static let crashes = ProcessInfo.processInfo.environment["CRASHES"].flatMap { Int($0) } ?? 6

    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Several clients, each of which counts in the text of its own card, one step at a time.
    final class Counters: Sendable {
        struct Counter { var card: String, revision: Int, acknowledged: Int }

        let counters = Mutex<[Counter]>([])

        /// Creates the cards, or checks that each has the count that was acknowledged, or at most the next one.
        func open(_ server: Server, _ what: String) async throws {
            let (revision, board) = try await server.board()
            if counters.withLock({ $0.isEmpty }) {
                for _ in 1...6 {
                    let made = try await server.done(#"{"type":"addCard","list":"l1","title":"count"}"#)
                    let counter = Counter(card: made.id!, revision: made.revision!, acknowledged: 0)
                    counters.withLock { $0.append(counter) }
                }
                return
            }
            counters.withLock { counters in
                for index in counters.indices {
                    let known = counters[index].acknowledged
                    guard let card = board.card(counters[index].card) else {
                        Issue.record("\(what): card \(counters[index].card) is lost")
                        continue
                    }
                    let found = Int(card.text) ?? 0
                    #expect(found == known || found == known + 1, "\(what): \(known) acknowledged, \(found) found")
                    #expect(revision >= counters[index].revision, "\(what): the revision went back")
                    counters[index].revision = card.revision
                    counters[index].acknowledged = found
                }
            }
        }

        /// Counts until the server accepts no more edits.
        func count(_ server: Server) async {
            await withTaskGroup { group in
                for index in counters.withLock({ $0.indices }) {
                    group.addTask {
                        while true {
                            let counter = self.counters.withLock { $0[index] }
                            let edit =
                                #"{"type":"editCard","card":"\#(counter.card)","title":"count","#
                                + #""text":"\#(counter.acknowledged + 1)","revision":\#(counter.revision)}"#
                            guard let answer = try? await server.command(edit, by: "client-\(index)"),
                                answer.status == 200, let revision = answer.fields?.revision
                            else { return }
                            self.counters.withLock {
                                $0[index].revision = revision
                                $0[index].acknowledged += 1
                            }
                        }
                    }
                }
            }
        }

        var sum: Int { counters.withLock { $0.reduce(0) { $0 + $1.acknowledged } } }
    }

    @Test("A kill at any time loses no acknowledged change and none that a watcher was shown")
    func kills() async throws {
        var random = SystemRandomNumberGenerator()
        let counters = Counters()
        for crash in 1...Self.crashes {
            let server = try await Server(folder)
            try await counters.open(server, "crash \(crash)")
            let stream = try await server.watch()
            let shown = Task {
                var last = 0
                while let event = try? await stream.next() { last = event.id ?? last }
                return last
            }
            let counting = Task { await counters.count(server) }
            let enough = counters.sum + Int.random(in: 1...60, using: &random)
            try await eventually("\(enough) counted") { counters.sum >= enough }
            try await Task.sleep(for: .microseconds(Int.random(in: 0...3_000, using: &random)))
            await server.end(SIGKILL)
            // A client that finds no server would otherwise continue to try to connect.
            counting.cancel()
            await counting.value
            let last = await shown.value
            let next = try await Server(folder)
            #expect(try await next.board().revision >= last, "crash \(crash): a watcher was shown \(last)")
            #expect(await next.end() == 0)
        }
        let server = try await Server(folder)
        try await counters.open(server, "in the end")
        #expect(counters.sum >= Self.crashes)
    }

    @Test(
        "A signal ends the streams and refuses further commands, and acknowledged changes are saved",
        arguments: [
            SIGTERM, SIGINT,
        ])
    func signals(signal: Int32) async throws {
        let server = try await Server(folder)
        let counters = Counters()
        try await counters.open(server, "at first")
        let stream = try await server.watch("?client=somebody")
        let counting = Task { await counters.count(server) }
        try await eventually("30 counted") { counters.sum >= 30 }
        let start = ContinuousClock.now
        #expect(await server.end(signal) == 0)
        #expect(ContinuousClock.now - start < .seconds(10))
        while try await stream.next() != nil {}
        counting.cancel()
        await counting.value
        #expect(server.program.errors == "")
        try await counters.open(try await Server(folder), "after it")
    }

    @Test("Clients that read nothing or send half a request do not delay the end past its deadline")
    func stuck() async throws {
        let server = try await Server(folder, "--deadline", "4")
        let text = String(repeating: "x", count: 4_000)
        let stuck = try (1...5).map { _ in try RawConnection(port: server.port, hasSmallBuffer: true) }
        for connection in stuck { connection.send("GET /boards/welcome/events HTTP/1.1\r\nHost: a\r\n\r\n") }
        let half = try RawConnection(port: server.port)
        var revision = 1
        for number in 1...400 {
            let edit =
                #"{"type":"editCard","card":"c4","title":"\#(number)","text":"\#(text)","revision":\#(revision)}"#
            revision = try #require(try await server.done(edit).revision)
        }
        half.send("POST /boards HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nContent-Type: application/json\r\n\r\n{")
        let start = ContinuousClock.now
        #expect(await server.end() == 0)
        #expect(ContinuousClock.now - start < .seconds(5), "\(server.program.errors)")
        #expect(server.program.errors.contains("Some clients were disconnected"), "\(server.program.errors)")
        let next = try await Server(folder)
        #expect(try await next.board().revision == revision)
        withExtendedLifetime((stuck, half)) {}
    }

    @Test("A client that reads none of its answers is cut off, and others are served")
    func unread() async throws {
        let server = try await Server(folder, "--slow", "1")
        let ask = "GET /board.js HTTP/1.1\r\nHost: a\r\n\r\n"
        let connection = try RawConnection(port: server.port, hasSmallBuffer: true)
        // More than the buffers of the system hold.
        connection.send(String(repeating: ask, count: 2_000))
        try await eventually("it is cut off") { !connection.send("x") }
        #expect(try await server.ask("GET", "/health").status == 200)
    }

    @Test("A client above the maximum number of connections is served once another one ends")
    func connections() async throws {
        let server = try await Server(folder, "--connections", "2")
        let ask = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
        let busy = try RawConnection(port: server.port)
        func isAnswered() async throws -> Bool {
            busy.send(ask)
            return try await busy.read { $0.hasSuffix("}") }.contains("200 OK")
        }
        var stream: RawConnection? = try RawConnection(port: server.port)
        stream?.send("GET /boards/welcome/events HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await stream?.read()?.contains("200 OK") == true)
        #expect(try await isAnswered())

        let late = try RawConnection(port: server.port)
        late.send(ask)
        let answer = Mutex(String?.none)
        let waiting = Task {
            let said = try await late.read()
            answer.withLock { $0 = said }
        }
        for _ in 1...100 { #expect(try await isAnswered()) }
        #expect(answer.withLock { $0 } == nil)
        stream = nil
        try await waiting.value
        #expect(answer.withLock { $0 }?.contains("200 OK") == true)
        withExtendedLifetime(busy) {}
    }

    @Test("A full disk is reported to each client, and acknowledged changes are there afterwards")
    func fullDisk() async throws {
        let server = try await Server(folder, blocks: 400, "--deadline", "2")
        let text = String(repeating: "x", count: 4_000)
        let revision = try await fill(server, text)
        #expect(try await server.command(#"{"type":"rename","title":"Later"}"#).problem == "unsaved")
        #expect(try await server.ask("GET", "/boards/welcome").problem == "unsaved")
        #expect(await server.end() == 1, "It must not look as if all were saved.")
        let (found, board) = try await Server(folder).board()
        // The refused edit may have reached the disk after all.
        #expect(found == revision || found == revision + 1)
        #expect(board.card("c4")?.text == text)
    }

    /// Edits a card until the disk accepts no more; returns the last revision that is on it.
    private func fill(_ server: Server, _ text: String = String(repeating: "x", count: 4_000)) async throws -> Int {
        var (revision, refusal) = (1, Server.Answer?.none)
        for number in 1...200 where refusal == nil {
            let edit =
                #"{"type":"editCard","card":"c4","title":"\#(number)","text":"\#(text)","revision":\#(revision)}"#
            let answer = try await server.command(edit)
            if answer.status == 200 { revision = try #require(answer.fields?.revision) } else { refusal = answer }
        }
        #expect(refusal?.status == 503 && refusal?.problem == "unsaved", "\(refusal?.text ?? "all was saved")")
        return revision
    }

    @Test(
        "A start on a full disk names the file and the likely cause, and the next start succeeds")
    func startWithoutRoom() async throws {
        let path = folder.url.appending(component: "data").path
        // In blocks of 512 bytes, as on a full disk: less than a page of a database, but enough for the message.
        let start = try Command(
            program: URL(filePath: "/bin/sh"),
            ["-c", "trap '' XFSZ; ulimit -S -f 4; exec \"$@\"", "sh", Command.built("live-board").path]
                + ["--port", "0", "--data", path])
        let end = await start.finish()
        #expect(end.status == 1 && end.output == "")
        let line = try #require(end.errors.split(separator: "\n").last)
        #expect(line.hasPrefix("live-board: \(path)/catalogue.sqlite: "), "\(end.errors)")
        #expect(
            line.hasSuffix("the disk may be full or not writable, and a start needs some free space"), "\(end.errors)")
        #expect(try await Server(folder).board().revision == 1)
    }

    #if os(Linux)  // Elsewhere there is no prlimit.
        @Test("While the disk is full, answers and health say so, and afterwards everything continues")
        func fullForAWhile() async throws {
            let server = try await Server(folder, blocks: 1 << 20, "--idle", "0")
            let id = try #require(try await server.ask("POST", "/boards", #"{"title":"Plans"}"#).fields?.id)
            try await server.done(#"{"type":"addList","title":"A"}"#, on: id)
            let stream = try await server.watch()  // Keeps the welcome board open, but not the other one.
            #expect(try await stream.next("state").id == 1)
            try await eventually("the other is put away") {
                try await server.ask("GET", "/metrics").text.contains("\nlive_board_open_boards 1\n")
            }
            try await server.setDisk(isFull: true)

            for (what, answer, detail) in [
                ("a new board", try await server.ask("POST", "/boards", #"{"title":"New"}"#), "Nothing was changed."),
                ("the first", try await server.command(#"{"type":"rename","title":"First"}"#), "may still be applied"),
                (
                    "the second", try await server.command(#"{"type":"rename","title":"Second"}"#),
                    "Nothing was changed."
                ),
                ("what is impossible", try await server.command(#"{"type":"undo"}"#), "Nothing was changed."),
                ("showing it", try await server.ask("GET", "/boards/welcome"), "unsaved changes are not shown"),
                ("one not open", try await server.ask("GET", "/boards/\(id)"), "cannot be opened"),
                ("a command there", try await server.command(#"{"type":"undo"}"#, on: id), "nothing was changed."),
                ("a stream of it", try await server.ask("GET", "/boards/\(id)/events"), "cannot be opened"),
                ("another", try await server.ask("POST", "/boards", #"{"title":"New"}"#), "Nothing was changed."),
            ] {
                #expect(answer.status == 503 && answer.problem == "unsaved", "\(what): \(answer.text)")
                #expect(answer.fields?.detail?.contains(detail) == true, "\(what): \(answer.text)")
            }
            let files = try FileManager.default.contentsOfDirectory(
                atPath: folder.url.appending(component: "data").path)
            #expect(
                !files.contains { $0.hasPrefix("board-") && !$0.contains("welcome") && !$0.contains(id) }, "\(files)")
            let health = try await server.ask("GET", "/health")
            #expect(health.status == 200 && health.text.contains(#""status":"read-only""#), "\(health.text)")

            try await server.setDisk(isFull: false)
            #expect(try await stream.next("change").id == 2)
            let shown = try await server.board()
            #expect(shown.revision == 2 && shown.board.title == "First")
            #expect(try await server.board(id).board.lists.map(\.title) == ["A"])
            #expect(try await server.ask("GET", "/health").text == #"{"status":"ok"}"#)
            #expect(try await server.ask("GET", "/boards").fields?.boards?.count == 2)
            #expect(await server.end() == 0)
        }

        @Test("A board that cannot be evicted is reported once, and so is its later eviction")
        func putAway() async throws {
            let server = try await Server(folder, blocks: 400, "--idle", "0")
            try await {
                let stream = try await server.watch()  // Keeps it open.
                _ = try await fill(server)
                withExtendedLifetime(stream) {}
            }()
            try await eventually("it is told") { server.program.errors.contains("A board cannot be closed") }
            // After each request the board is to be evicted again.
            for _ in 1...5 { #expect(try await server.ask("GET", "/boards/welcome").problem == "unsaved") }
            try await server.setDisk(isFull: false)
            try await eventually("it is put away") { server.program.errors.contains("The board has been closed") }
            #expect(await server.end() == 0)
            let told = server.program.errors.components(separatedBy: "A board cannot be closed").count - 1
            #expect(told == 1 && server.program.errors.contains("board=welcome"), "\(server.program.errors)")
        }
    #endif

    private func file(of board: String) -> URL {
        folder.url.appending(component: "data").appending(component: "board-\(board).sqlite")
    }

    @Test("A board whose file is deleted while it is open is lost, and all others continue")
    func takenAway() async throws {
        var server = try await Server(folder)
        let id = try #require(try await server.ask("POST", "/boards", #"{"title":"Plans"}"#).fields?.id)
        try await server.done(#"{"type":"addList","title":"A"}"#, on: id)
        let (file, aside) = (file(of: id), folder.url.appending(component: "aside"))
        try FileManager.default.copyItem(at: file, to: aside)
        try FileManager.default.removeItem(at: file)
        for title in ["B", "C"] {
            let answer = try await server.command(#"{"type":"addList","title":"\#(title)"}"#, on: id)
            #expect(answer.status == 500 && answer.problem == "lost", "\(answer.text)")
        }
        #expect(try await server.ask("GET", "/boards/\(id)").problem == "lost")
        let health = try await server.ask("GET", "/health")
        #expect(health.status == 503 && health.text.contains("failed") && health.text.contains(file.path), "\(health)")
        #expect(try await server.ask("POST", "/boards", #"{"title":"Others"}"#).status == 201)
        try await server.done(#"{"type":"addList","title":"D"}"#)
        await server.end()
        #expect(server.program.errors.contains(file.path), "\(server.program.errors)")
        #expect(server.program.errors.contains("live-board: board \(id) was not saved: The stored data is missing. "))

        try FileManager.default.moveItem(at: aside, to: file)
        server = try await Server(folder)
        #expect(try await server.board(id).board.title == "Plans")
        #expect(try await server.ask("GET", "/health").status == 200)
        #expect(await server.end() == 0)
    }

    @Test("Boards that take long to open do not delay other requests")
    func slowToOpen() async throws {
        var server = try await Server(folder)
        var ids: [String] = []
        for number in 0..<8 {
            ids.append(try #require(try await server.ask("POST", "/boards", #"{"title":"\#(number)"}"#).fields?.id))
        }
        #expect(await server.end() == 0)
        server = try await Server(folder)
        // The server waits for up to a minute to open one of these.
        var held = try ids.map { try SQLiteLog<Held>(path: file(of: $0).path, coding: .json()) }
        let answers = try await withThrowingTaskGroup(of: Server.Answer.self) { [server] group in
            for id in ids { group.addTask { try await server.ask("GET", "/boards/\(id)") } }
            // Otherwise these requests would wait for the threads of the tasks, which would wait for the boards.
            for _ in 0..<20 { #expect(try await server.ask("GET", "/health").status == 200) }
            held = []
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.map(\.status) == ids.map { _ in 200 }, "\(answers.map(\.text))")
        #expect(held.isEmpty)
        #expect(await server.end() == 0)
        let data = folder.url.appending(component: "data").path
        let files = try FileManager.default.contentsOfDirectory(atPath: data)
        #expect(!files.contains { $0.hasSuffix("-wal") }, "Each is closed before the program ends: \(files)")
    }

    @Test("A lost board does not wait for the disk, whether that is full before or after")
    func lostWhileFull() {
        struct Full: Error {}
        let (disk, path) = (Disk(), "board-a.sqlite")
        disk.note(Full(), at: path)
        #expect(disk.waiting != nil)
        disk.noteLost("it is gone", at: path)
        #expect(disk.waiting == nil && disk.isLost(path))
        disk.note(Full(), at: path)
        #expect(disk.waiting == nil && disk.isLost(path))
        disk.note(nil, at: path)
        #expect(!disk.isLost(path) && disk.failure == nil)
    }

    private struct Held: FluxState, Codable {
        enum Action: FluxAction, Codable { case none }
        mutating func handle(action: Action) -> Held? { nil }
    }

    @Test("With few open files allowed, the server accepts fewer connections, and more clients wait")
    func fewFiles() async throws {
        let server = try await Server(folder, after: "ulimit -n \(128 + 3 * ProcessInfo.processInfo.processorCount)")
        #expect(server.program.errors.contains("fewer connections"), "\(server.program.errors)")
        let answers = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<200 { group.addTask { try await server.ask("GET", "/boards/welcome").status } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.allSatisfy { $0 == 200 }, "\(answers)")
        #expect(await server.end() == 0)
    }

    @Test(
        "A board whose file is gone or empty is not shown as an empty one, and returns with its file"
    )
    func lost() async throws {
        var server = try await Server(folder)
        let id = try #require(try await server.ask("POST", "/boards", #"{"title":"Plans"}"#).fields?.id)
        #expect(await server.end() == 0)
        server = try await Server(folder)
        #expect(try await server.board(id) == (1, Board(title: "Plans", lists: [])), "Nobody had asked for it before.")
        try await server.done(#"{"type":"addList","title":"A"}"#, on: id)
        #expect(await server.end() == 0)

        let file = folder.url.appending(component: "data").appending(component: "board-\(id).sqlite")
        let aside = folder.url.appending(component: "aside")
        try FileManager.default.moveItem(at: file, to: aside)
        server = try await Server(folder)
        for path in ["/boards/\(id)", "/boards/\(id)/events"] {
            let answer = try await server.ask("GET", path)
            #expect(answer.status == 500 && answer.problem == "lost", "\(answer.text)")
            #expect(answer.fields?.detail?.contains(id) == true, "\(answer.text)")
        }
        #expect(try await server.command(#"{"type":"addList","title":"B"}"#, on: id).problem == "lost")
        let health = try await server.ask("GET", "/health")
        #expect(health.status == 503 && health.text.contains(file.path), "\(health.text)")
        #expect(!FileManager.default.fileExists(atPath: file.path))
        try Data().write(to: file)
        #expect(try await server.ask("GET", "/boards/\(id)").problem == "lost")
        try FileManager.default.removeItem(at: file)
        try FileManager.default.moveItem(at: aside, to: file)
        #expect(try await server.board(id).board.lists.map(\.title) == ["A"])
        #expect(try await server.ask("GET", "/health").status == 200)
        #expect(await server.end() == 0)
        #expect(server.program.errors.contains(file.path), "\(server.program.errors)")

        // A damaged board is reported as well. If the catalogue is lost, the server does not start with a new one.
        try Data(repeating: 7, count: 8_192).write(to: file)
        server = try await Server(folder)
        let damaged = try await server.ask("GET", "/boards/\(id)")
        #expect(damaged.status == 500 && damaged.problem == "damaged", "\(damaged.text)")
        #expect(damaged.fields?.detail?.contains(id) == true, "\(damaged.text)")
        #expect(server.program.errors.contains(file.path), "\(server.program.errors)")
        #expect(try await server.ask("GET", "/health").status == 503)
        #expect(await server.end() == 0)
        let data = folder.url.appending(component: "data")
        for name in try FileManager.default.contentsOfDirectory(atPath: data.path) where name.hasPrefix("catalogue") {
            try FileManager.default.removeItem(at: data.appending(component: name))
        }
        let lost = try await Command(program: Command.built("live-board"), ["--port", "0", "--data", data.path])
            .finish()
        #expect(lost.status == 1 && lost.errors.contains("board-\(id).sqlite exists"), "\(lost.errors)")
    }

    @Test("A client that sends nothing, or a byte now and then, is cut off, and told why if it has begun a request")
    func trickles() async throws {
        let server = try await Server(folder)
        let post = "POST /boards HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        try await withThrowingTaskGroup(of: (String, String, Duration).self) { group in
            for (what, text, byte) in [
                ("head", "GET / HTTP/1.1\r\nX: ", "x"), ("line", "GET /", "x"), ("body", post + "{", " "),
                ("body of a page", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", "x"),
                ("chunks", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
                (
                    "framing", "POST /boards HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x"
                ),
                ("second head", "GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET", " "), ("half a head", "GET / HT", ""),
                ("half a body", post + "{", ""), ("nothing", "", ""),
            ] {
                group.addTask {
                    let connection = try RawConnection(port: server.port)
                    let (said, duration) = try await connection.trickle(text, byte)
                    return (what, said, duration)
                }
            }
            for try await (what, said, duration) in group {
                #expect(duration < .seconds(8), "\(what): \(said)")
                if what == "nothing" { #expect(said == "") }
                let isTold = said.contains("HTTP/1.1 408 ") && said.contains("\"urn:live-board:too-slow\"")
                #expect(isTold == (what != "nothing"), "\(what): \(said)")
                #expect(said.components(separatedBy: "HTTP/1.1 408 ").count <= 2, "\(what): \(said)")
                #expect(said.contains("200 OK") == (what == "second head"), "\(what): \(said)")
            }
        }
        #expect(try await server.board().revision == 1)
    }

    @Test("A request that is not HTTP, or has too long a head, is refused, and the next one is served")
    func nonsense() async throws {
        let server = try await Server(folder)
        for text in [
            "\u{0}\u{1}\u{2}\r\n\r\n", "GET / SMTP/1.0\r\n\r\n", "GET /\r\n\r\n",
            "GET / HTTP/1.1\r\nX: \(String(repeating: "x", count: 200_000))\r\n\r\n",
            "POST /boards HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            "POST /boards HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            let connection = try RawConnection(port: server.port)
            connection.send(text)
            let said = try await connection.readToEnd()
            #expect(!said.contains("200 OK"), "\(text.prefix(40)): \(said)")
            if text.hasSuffix("zz\r\n") { #expect(said.contains(" 400 ") && said.contains("urn:live-board:malformed")) }
        }
        #expect(try await server.ask("GET", "/health").status == 200)
        let metrics = try await server.ask("GET", "/metrics").text
        #expect(metrics.contains(#"status_code="400""#) && !metrics.contains(#""500""#), "\(metrics)")
    }

    @Test("A second start on the same folder reports that it is in use, and the first continues")
    func second() async throws {
        let server = try await Server(folder)
        let path = folder.url.appending(component: "data").path
        let second = try Command(program: Command.built("live-board"), ["--port", "0", "--data", path])
        let result = await second.finish()
        #expect(result.status == 1 && result.output == "")
        #expect(result.errors == "live-board: \(path): another live-board is using it\n")
        try await server.done(#"{"type":"rename","title":"A"}"#)
    }

    @Test("Paths that cannot be opened and mistakes in the options are reported in one line")
    func mistakes() async throws {
        let server = try await Server(folder)
        let other = folder.url.appending(component: "other").path
        let odd = folder.url.appending(component: "odd").path
        try FileManager.default.createDirectory(
            atPath: odd + "/catalogue.sqlite", withIntermediateDirectories: true)
        for (arguments, status, start) in [
            (["--data", "/dev/null/x"], 1, "live-board: /dev/null/x: the folder cannot be created: Not a directory\n"),
            (["--data", "/dev/null"], 1, "live-board: /dev/null: it is not a folder\n"),
            (["--data", odd], 1, "live-board: \(odd)/catalogue.sqlite: it is a folder, not a database\n"),
            (["--data", ""], 64, "Error: --data needs a folder.\n"),
            (
                ["--data", other, "--port", "\(server.port)"], 1,
                "live-board: 127.0.0.1:\(server.port): the port is in use\n"
            ),
            (["--boards", "0"], 64, "Error: --boards must be at least 1.\n"),
            (
                ["--log", "http://bob:secret@h"], 64,
                "Error: --log needs addresses such as nats://127.0.0.1:4222, not \"http://h\".\n"
            ),
            (
                ["--log", "bob:secret@h"], 64,
                "Error: --log needs addresses such as nats://127.0.0.1:4222, not \"h\".\n"
            ),
            (
                ["--log", "nats://ann:secret@g,nats://bob:sec,ret,s@h"], 64,
                "Error: --log needs addresses such as nats://127.0.0.1:4222, not \"nats://g, nats://h\".\n"
            ),
            (["--port", "70000"], 64, "Error: --port must be at most 65535.\n"),
        ] {
            let result = try await Command(program: Command.built("live-board"), arguments).finish()
            #expect(result.status == status && result.output == "", "\(arguments)")
            #expect(result.errors.hasPrefix(start), "\(arguments): \(result.errors)")
            if status == 1 { #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)") }
        }
        let help = try await Command(program: Command.built("live-board"), ["--help"]).finish()
        for option in ["--host", "--port", "--data", "--deadline", "--idle", "--open-boards", "--boards", "--cards"] {
            #expect(help.output.contains(option))
        }
    }
}
