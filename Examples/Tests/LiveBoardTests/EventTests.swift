import Foundation
import ProgramTesting
import Testing

@testable import live_board

/// The event streams of clients that watch a board.
@Suite struct EventTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("A watcher gets the state first, then each change once, and its copy equals the board")
    func changes() async throws {
        let server = try await Server(folder)
        let stream = try await server.watch()
        let first = try #require(try await stream.next())
        #expect(first.name == "state" && first.id == 1)
        var board = try #require(try first.json.board)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...20 {
                let add = #"{"type":"addCard","list":"l1","title":"\#(number)"}"#
                group.addTask { try await server.done(add, by: "client-\(number)") }
            }
            try await group.waitForAll()
        }
        for revision in 2...21 {
            let event = try await stream.next("change")
            let change = try event.json
            #expect(event.id == revision && change.revision == revision)
            #expect(change.client?.hasPrefix("client-") == true)
            let fits = board.apply(try #require(change.change))
            #expect(fits)
        }
        #expect(try await server.board() == (21, board))
    }

    @Test("A returning watcher gets the changes it missed, also after a restart, or the state if they are gone")
    func comingBack() async throws {
        var server = try await Server(folder)
        for number in 2...5 { try await server.done(#"{"type":"rename","title":"\#(number)"}"#) }
        let watcher = try await server.watch(last: KnownRevision(1))
        let known = try await [watcher.next("change").known!, watcher.next("change").known!]
        #expect(known.map(\.revision) == [2, 3])
        #expect(await server.end() == 0)
        server = try await Server(folder)

        var stream = try await server.watch(last: known[0])
        for revision in 3...5 {
            let event = try #require(try await stream.next())
            #expect(event.name == "change" && event.id == revision)
        }
        #expect(try await stream.next()?.name == "here")
        stream = try await server.watch("?last=\(known[1])")
        #expect(try await stream.next()?.id == 4)
        // From before the board was created, from the future, and a number that may belong to another copy.
        for last in [-1, 0, 6, .max, 5, Int.min].map({ KnownRevision($0) }) + [
            KnownRevision(1, "x"), KnownRevision(5, ""),
        ] {
            let stream = try await server.watch(last: last)
            let event = try #require(try await stream.next())
            #expect(event.name == "state" && event.id == 5)
        }
        let odd = try await server.watch("?last=x")
        #expect(try await odd.next()?.name == "state")
    }

    @Test(
        "After a restore a returning watcher gets the changes it missed, or the board if its own was another"
    )
    func restoredCopy() async throws {
        let data = folder.url.appending(component: "data")
        let copy = folder.url.appending(component: "copy")
        var server = try await Server(folder)
        /// Renames the board this many times, and returns the event of the last rename.
        func rename(_ count: Int, _ title: String) async throws -> EventStream.Event {
            let stream = try await server.watch()
            for number in 1...count { try await server.done(#"{"type":"rename","title":"\#(title) \#(number)"}"#) }
            let revision = try await server.board().revision
            while let event = try await stream.next() { if event.id == revision { return event } }
            throw Missing("revision \(revision)")
        }
        let before = try #require(try await rename(4, "before").known)
        #expect(await server.end() == 0)
        try FileManager.default.copyItem(at: data, to: copy)
        server = try await Server(folder)
        let lost = try #require(try await rename(3, "lost").known)
        let undone = try await server.done(#"{"type":"undo"}"#).revision
        let stream = try await server.watch(last: lost)
        let taken = try #require(try await stream.next())
        #expect(taken.name == "change" && taken.id == undone, "An ordinary end costs nobody anything.")
        #expect(await server.end() == 0)

        try FileManager.default.removeItem(at: data)
        try FileManager.default.moveItem(at: copy, to: data)
        server = try await Server(folder)
        _ = try await rename(6, "new")
        for known in [lost, try #require(taken.known)] {
            let first = try #require(try await server.watch(last: known).next())
            #expect(first.name == "state" && first.id == 11, "\(known): \(first)")
        }
        let later = try await server.watch(last: before)
        for revision in 6...11 {
            let event = try #require(try await later.next())
            #expect(event.name == "change" && event.id == revision)
        }
    }

    @Test("Watchers are notified as people come and go, but not of clients that only watch")
    func here() async throws {
        let server = try await Server(folder)
        let ann = try await server.watch("?client=ann-ann-ann&name=Ann%20%3Cb%3E")
        let first = try await ann.next("here").json
        #expect(first.count == 1 && first.names == ["Ann <b>"])
        _ = try await server.watch()
        // Two pages of one client count as one person.
        try await {
            let ben = try await server.watch("?client=ben-ben-ben&name=Ben")
            let again = try await server.watch("?client=ben-ben-ben&name=Ben")
            let nameless = try await server.watch("?client=nameless")
            try await ann.until("all are here") { try $0.json.count == 3 && $0.json.names == ["Ann <b>", "Ben"] }
            withExtendedLifetime((ben, again, nameless)) {}
        }()
        try await ann.until("only Ann is here") { try $0.json.count == 1 && $0.json.names == ["Ann <b>"] }
        try await eventually("only Ann is left") {
            try await server.ask("GET", "/metrics").text.contains("\nlive_board_watchers 1\n")
        }
    }

    private func join(_ feed: Feed, last: Int) throws -> (watcher: Int, first: Feed.Batch) {
        let joined = feed.join(client: nil, name: nil, last: last)
        return try #require(joined)
    }

    @Test("A state that does not follow from the last one is sent whole, and a change of access is sent")
    func anew() async throws {
        var (wrong, right) = (BoardState(), BoardState())
        _ = wrong.apply(.found(Board(title: "Wrong", lists: [])))
        _ = right.apply(.found(Board(title: "Right", lists: [])))
        let feed = Feed(wrong)
        for (state, title) in [(wrong, "Wrong"), (right, "Right"), (wrong, "Wrong")] {
            #expect(String(buffer: feed.snapshot(of: state)).contains(title), "Both are of one revision.")
        }
        let watcher = try join(feed, last: 1)
        #expect(watcher.first.frames.count == 2, "who knows the state is told of who is here, and to come back")
        feed.show(isWritable: true)
        feed.show(isWritable: false)
        let told = await feed.next(for: watcher.watcher, after: watcher.first.next)
        #expect(told?.frames.map { String(buffer: $0) } == ["event: access\ndata: {\"writable\":false}\n\n"])
        let next = try join(feed, last: 1)
        #expect(next.first.frames.map { String(buffer: $0) }.contains { $0.contains("access") })
        feed.show(right, anew: true)
        let shown = try #require(await feed.next(for: watcher.watcher, after: told!.next))
        #expect(shown.frames.map { String(buffer: $0) }.first?.contains("Right") == true)
    }

    @Test("A frame is kept while a watcher has yet to fetch it, and no longer")
    func kept() async throws {
        let feed = Feed(BoardState())
        feed.beat()
        #expect(feed.balance.kept == 0, "nobody watches")
        let quick = try join(feed, last: 0)
        let slow = try join(feed, last: 0)
        for _ in 0..<2 { feed.beat() }
        let taken = try #require(await feed.next(for: quick.watcher, after: quick.first.next))
        #expect(taken.frames.count == 2)

        async let later = feed.next(for: quick.watcher, after: taken.next)
        try await eventually("the quick one waits") { feed.balance.waiting == 1 }
        feed.beat()
        #expect(await later?.frames.count == 1)
        #expect(feed.balance.kept == 3)
        let missed = try #require(await feed.next(for: slow.watcher, after: slow.first.next))
        #expect(missed.frames.count == 3, "one that was busy misses nothing")

        async let one = feed.next(for: quick.watcher, after: missed.next)
        async let other = feed.next(for: slow.watcher, after: missed.next)
        try await eventually("both wait") { feed.balance.waiting == 2 }
        feed.beat()
        #expect(await [one?.frames.count, other?.frames.count] == [1, 1])
        #expect(feed.balance.kept == 0)
    }

    @Test("A watcher that has gone is noticed even if nothing is to be sent")
    func gone() async throws {
        let server = try await Server(folder)
        try await {
            let stream = try await server.watch()
            #expect(try await stream.next()?.name == "state")
            #expect(try await server.ask("GET", "/metrics").text.contains("\nlive_board_watchers 1\n"))
        }()
        // Sooner than by the heartbeats, the second of which would not get through.
        try await eventually("nobody watches", within: 12) {
            try await server.ask("GET", "/metrics").text.contains("\nlive_board_watchers 0\n")
        }
    }

    @Test("A client that does not read delays no other, uses bounded memory, and later gets the newest state")
    func slow() async throws {
        let server = try await Server(folder, "--slow", "600")
        try await fill(server)
        let slow = try (1...20).map { _ in try RawConnection(port: server.port, hasSmallBuffer: true) }
        for connection in slow { connection.send("GET /boards/welcome/events HTTP/1.1\r\nHost: a\r\n\r\n") }
        try await eventually("they watch") {
            try await server.ask("GET", "/metrics").text.contains("\nlive_board_watchers 20\n")
        }
        let stream = try await server.watch()
        let before = memory(of: server)
        // 16 MB in all for each of them.
        for _ in 1...40 { try await change(server) }
        let (revision, board) = try await server.board()
        // The stream may have been too slow for some changes, and then has got the whole board.
        try await stream.until("revision \(revision)") { $0.id == revision }
        #expect(memory(of: server) - before < 120_000_000, "\(before) bytes before, \(memory(of: server)) after")

        let said = try await within(100, "the newest state") {
            var said = ""
            while let more = try await slow[0].read(), !said.contains("event: state\nid: \(revision)-") { said += more }
            return said
        }
        #expect(said.contains("id: \(revision)-") && said.count < 16_000_000 && !board.title.isEmpty)
        #expect(try await !server.ask("GET", "/metrics").text.contains("\nlive_board_skips_total 0\n"))
    }

    @Test("A client that closes its side right after the request does not stay a watcher")
    func closedAtOnce() async throws {
        let server = try await Server(folder)
        for _ in 1...20 {
            let connection = try RawConnection(port: server.port)
            connection.send("GET /boards/welcome/events HTTP/1.1\r\nHost: a\r\n\r\n")
            connection.endSending()
            _ = try await within(20, "the end of the stream") { try await connection.readToEnd() }
        }
        try await eventually("nobody watches") {
            try await server.ask("GET", "/metrics").text.contains("\nlive_board_watchers 0\n")
        }
    }

    @Test("A client that reads a stream in drips is cut off like one that reads nothing, and one that reads is not")
    func drips() async throws {
        let server = try await Server(folder, "--slow", "4")
        try await fill(server)
        let stuck = try RawConnection(port: server.port, hasSmallBuffer: true)
        let drip = try RawConnection(port: server.port, hasSmallBuffer: true)
        for one in [stuck, drip] {
            one.send("GET /boards/welcome/events HTTP/1.1\r\nHost: a\r\n\r\n")
            var said = ""
            while !said.contains("retry"), let more = try await one.read(atMost: 300) { said += more }
        }
        let dripping = Task {
            while !Task.isCancelled, try await drip.read(atMost: 300) != nil {
                try? await Task.sleep(for: .milliseconds(10))
            }
        }
        let stream = try await server.watch()
        let reading = Task { while try await stream.next() != nil {} }
        for _ in 1...20 { try await change(server) }
        try await eventually("only the one that reads is left") {
            try await server.ask("GET", "/metrics").text.contains("\nlive_board_watchers 1\n")
        }
        dripping.cancel()
        reading.cancel()
    }

    /// Makes the board large.
    private func fill(_ server: Server) async throws {
        let text = String(repeating: "x", count: 4_000)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...100 {
                group.addTask {
                    let client = "client-\(number)"
                    let add = try await server.done(#"{"type":"addCard","list":"l2","title":"a"}"#, by: client)
                    let (card, revision) = (try #require(add.id), try #require(add.revision))
                    let edit =
                        #"{"type":"editCard","card":"\#(card)","title":"a","text":"\#(text)","revision":\#(revision)}"#
                    try await server.done(edit, by: client)
                }
            }
            try await group.waitForAll()
        }
    }

    /// Sends 400 kB to each client that watches a large board.
    private func change(_ server: Server) async throws {
        try await server.done(#"{"type":"removeList","list":"l2"}"#)
        try await server.done(#"{"type":"undo"}"#)
    }

    /// The number of bytes of memory that the program uses.
    private func memory(of server: Server) -> Int {
        let status = (try? String(contentsOfFile: "/proc/\(server.program.identifier)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        return 1_024 * (line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0)
    }

    @Test("Metrics are served in the format of Prometheus")
    func metrics() async throws {
        let server = try await Server(folder)
        try await server.done(#"{"type":"rename","title":"A"}"#)
        #expect(
            try await server.ask("GET", "/metrics").headers["content-type"]
                == "text/plain; version=0.0.4; charset=utf-8")
        for line in [
            "# TYPE live_board_store_announced_total counter", "live_board_open_boards 1",
            "# TYPE http_server_request_duration_seconds histogram", "live_board_store_applied_seconds_count 1",
            #"hb_requests_total{http_route="/boards/{board}/commands",http_request_method="POST",http_response_status_code="200"} 1"#,
        ] {
            // A request is counted after its answer.
            try await eventually(line) {
                try await server.ask("GET", "/metrics").text.split(separator: "\n").contains(Substring(line))
            }
        }
    }

    @Test("Names and labels are converted for Prometheus, and buckets never decrease")
    func prometheus() {
        let metrics = Prometheus()
        let timer = metrics.makeTimer(label: "a.b-c", dimensions: [("x.y", "one \"two\"\\\nthree")])
        for milliseconds in [1, 3, 3, 20_000] { timer.recordNanoseconds(Int64(milliseconds) * 1_000_000) }
        metrics.makeCounter(label: "n", dimensions: []).increment(by: 2)
        metrics.makeCounter(label: "n", dimensions: []).increment(by: 1)
        metrics.makeMeter(label: "1g", dimensions: []).decrement(by: 0.5)
        let labels = #"x_y="one \"two\"\\\nthree""#
        let lines = metrics.text.split(separator: "\n").map(String.init)
        #expect(lines.contains("# TYPE n_total counter") && lines.contains("n_total 3"))
        #expect(lines.contains("_1g -0.5"))
        for (bound, count) in [("0.001", 1), ("0.0025", 1), ("0.005", 3), ("10.0", 3), ("+Inf", 4)] {
            #expect(lines.contains("a_b_c_seconds_bucket{\(labels),le=\"\(bound)\"} \(count)"))
        }
        #expect(lines.contains("a_b_c_seconds_count{\(labels)} 4"))
        #expect(lines.contains("a_b_c_seconds_sum{\(labels)} 20.007"))
    }
}
