import Foundation
import LocalServers
import ProgramTesting
import Synchronization
import Testing

@testable import live_board

/// Two servers on one log, as clients of both see them; each test has its own NATS server as the log.
@Suite(.serialized) struct SharedBoardTests {
    let folder: TemporaryFolder
    let log: NatsServer

    init() throws {
        folder = try TemporaryFolder()
        log = try NatsServer(name: "log", folder: folder.url.appending(component: "log").path, port: freePort())
    }

    /// Starts a server on the log.
    func start(_ options: String...) async throws -> Server {
        try await Server(folder, ["--log", log.address, "--replicas", "1", "--patience", "2"] + options)
    }

    /// Waits until all servers show the same revision, and checks that they show the same board.
    @discardableResult func settled(_ servers: Server..., on board: String = "welcome") async throws -> Board {
        try await eventually("the same revision at all servers") {
            var revisions: Set<Int> = []
            for server in servers { revisions.insert(try await server.board(board).revision) }
            return revisions.count == 1
        }
        let first = try await servers[0].board(board)
        for server in servers.dropFirst() { #expect(try await server.board(board) == first) }
        return first.board
    }

    @Test("Changes and new boards of one server appear at the other, with the same revisions")
    func both() async throws {
        let (one, other) = try await (start(), start())
        let stream = try await other.watch("?client=somebody&name=Ann")
        #expect(try await stream.next("state").id == 1)
        let added = try await one.done(#"{"type":"addCard","list":"l1","title":"A"}"#)
        let event = try await stream.next("change")
        #expect(event.id == 2 && added.revision == 2)
        #expect(try event.json.change?.added == added.id)
        // A change that one server has acknowledged can be built on at the other at once.
        for number in 3...12 {
            let (first, second) = number.isMultiple(of: 2) ? (one, other) : (other, one)
            let card = try await first.done(#"{"type":"addCard","list":"l2","title":"\#(number)"}"#).id!
            try await second.done(#"{"type":"removeCard","card":"\#(card)"}"#)
        }
        #expect(try await settled(one, other).cardCount == 5)

        let id = try #require(try await one.ask("POST", "/boards", #"{"title":"Plans"}"#).fields?.id)
        #expect(try await other.board(id).board == Board(title: "Plans", lists: []))
        #expect(try await other.ask("GET", "/b/\(id)").status == 200)
        #expect(try await other.ask("GET", "/b/nothing").status == 404)
        try await other.done(#"{"type":"rename","title":"Plans, new"}"#, on: id)
        try await eventually("the new title at the first") {
            try await one.ask("GET", "/boards").fields?.boards?.contains(["id": id, "title": "Plans, new"]) == true
        }
        // Each server reports only the clients that watch it.
        #expect(try await one.watch("?client=somebody-else").next("here").json.count == 1)
        #expect(await one.end() == 0)
        #expect(await other.end() == 0)
    }

    @Test("A watcher that changes servers misses nothing and sees nothing twice, even if the other is behind")
    func lastEventID() async throws {
        let (one, other) = try await (start(), start())
        let stream = try await one.watch()
        for number in 2...40 { try await one.done(#"{"type":"rename","title":"\#(number)"}"#) }
        var last = try await stream.next("state").known!
        while last.revision < 20 { last = try await stream.next("change").known! }
        #expect(last.order != nil)
        let next = try await other.watch(last: last)
        for revision in (last.revision + 1)...40 {
            let event = try #require(try await next.next())
            #expect(event.name == "change" && event.id == revision)
        }
        // The other server knows the newest revision that one server has shown, even if it has not read it yet.
        let shown = try await one.watch()
        for number in 41...60 {
            try await one.done(#"{"type":"rename","title":"\#(number)"}"#)
            let known = try await shown.next("change").known!
            let first = try await other.watch(last: known).next()
            #expect(known.revision == number && first?.name != "state", "after \(known)")
        }
        // A revision that no server has shown is not known.
        #expect(try await other.watch(last: KnownRevision(1_000)).next()?.name == "state")
    }

    @Test("Each vote counts once, whichever server it is sent to")
    func votes() async throws {
        let (one, other) = try await (start(), start())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<150 {
                group.addTask {
                    let vote = #"{"type":"vote","card":"c4","on":true}"#
                    // Some clients vote at both servers.
                    if number % 3 != 1 { try await one.done(vote, by: "client-\(number)") }
                    if number % 3 != 0 { try await other.done(vote, by: "client-\(number)") }
                }
            }
            try await group.waitForAll()
        }
        let voters = try await settled(one, other).card("c4")?.voters ?? []
        #expect(voters.count == 150 && Set(voters).count == 150)
        #expect(try await one.board().revision == 151)
    }

    @Test(
        "One of two conflicting commands at two servers succeeds, and the other is refused with the reason")
    func overtaken() async throws {
        let (one, other) = try await (start("--cards", "20"), start("--cards", "20"))
        var refusals: [String] = []
        for round in 1...30 {
            let revision = try #require(try await one.board().board.card("c4")?.revision)
            func edit(_ who: String) -> String {
                #"{"type":"editCard","card":"c4","title":"\#(who) \#(round)","text":"","revision":\#(revision)}"#
            }
            async let first = one.command(edit("one"), by: "client-one")
            async let second = other.command(edit("other"), by: "client-other")
            let answers = try await [first, second]
            #expect(answers.filter { $0.status == 200 }.count == 1, "round \(round): \(answers.map(\.text))")
            refusals += answers.filter { $0.status != 200 }.map { $0.problem ?? $0.text }
        }
        #expect(refusals == Array(repeating: "stale", count: 30))

        let answers = try await withThrowingTaskGroup(of: Server.Answer.self) { group in
            for number in 1...40 {
                let add = #"{"type":"addCard","list":"l1","title":"\#(number)"}"#
                group.addTask { try await (number % 2 == 0 ? one : other).command(add, by: "client-\(number)") }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let made = answers.filter { $0.status == 200 }.compactMap { $0.fields?.id }
        #expect(made.count == 16 && Set(made).count == 16)
        #expect(answers.filter { $0.status != 200 }.allSatisfy { $0.status == 507 && $0.problem == "full" })
        let board = try await settled(one, other)
        #expect(board.cardCount == 20 && made.allSatisfy { board.card($0) != nil })
    }

    @Test("A change made at one server can be undone at the other, unless a client has edited it since")
    func undo() async throws {
        let (one, other) = try await (start(), start())
        try await one.done(#"{"type":"rename","title":"Ann's"}"#, by: "ann-ann-ann")
        try await other.done(#"{"type":"vote","card":"c5","on":true}"#, by: "ann-ann-ann")
        let edit = #"{"type":"editCard","card":"c4","title":"Ann's","text":"","revision":1}"#
        let revision = try await one.done(edit, by: "ann-ann-ann").revision!
        let another = #"{"type":"editCard","card":"c4","title":"Ben's","text":"","revision":\#(revision)}"#
        try await other.done(another, by: "ben-ben-ben")
        try await one.done(#"{"type":"undo"}"#, by: "ann-ann-ann")
        #expect(try await one.board().board.card("c5")?.voters == [])
        try await other.done(#"{"type":"undo"}"#, by: "ann-ann-ann")
        #expect(try await other.board().board.title == "Welcome")
        #expect(try await one.command(#"{"type":"undo"}"#, by: "ann-ann-ann").problem == "nothing-to-undo")
        #expect(try await settled(one, other).card("c4")?.title == "Ben's")
    }

    /// The cards that were acknowledged by either server.
    final class Added: Sendable {
        let ids = Mutex<[String]>([])

        var count: Int { ids.withLock { $0.count } }

        /// Adds this many cards, or fewer if the server accepts no more.
        func add(_ count: Int, to server: Server) async {
            for number in 1...count {
                let add = #"{"type":"addCard","list":"l3","title":"\#(number)"}"#
                guard let answer = try? await server.command(add), answer.status == 200, let id = answer.fields?.id
                else { return }
                ids.withLock { $0.append(id) }
            }
        }
    }

    @Test("A server that is killed and restarted catches up, and no acknowledged change of either is lost")
    func kill() async throws {
        let one = try await start()
        let added = Added()
        for round in 1...3 {
            let other = try await start()
            let adding = Task { await added.add(40, to: one) }
            let addingThere = Task { await added.add(1_000, to: other) }
            let enough = added.count + 10 * round
            try await eventually("\(enough) added") { added.count >= enough }
            await other.end(SIGKILL)
            // A client that finds no server would otherwise continue to try to connect.
            addingThere.cancel()
            await addingThere.value
            await adding.value
            let next = try await start()
            let cards = try await settled(one, next).lists[2].cards.map(\.id)
            #expect(Set(cards).count == cards.count)
            #expect(Set(cards).isSuperset(of: added.ids.withLock { $0 }))
            #expect(await next.end() == 0)
        }
        #expect(try await one.ask("GET", "/health").text == #"{"status":"ok"}"#)
    }

    @Test("While the log is away boards are shown and commands refused in time; afterwards all continues")
    func unavailable() async throws {
        let (one, other, patient) = try await (start(), start(), start("--patience", "60"))
        try await one.done(#"{"type":"rename","title":"Before"}"#)
        try await settled(one, other, patient)
        let stream = try await other.watch()
        #expect(try await stream.next("state").id == 2)
        log.kill()
        let start = ContinuousClock.now
        let refused = try await one.command(#"{"type":"addCard","list":"l1","title":"Unknown"}"#)
        #expect(refused.status == 503 && ["unsaved", "unavailable"].contains(refused.problem), "\(refused.text)")
        // A command that seems impossible may only seem so at this server.
        let missing = try await other.command(#"{"type":"removeCard","card":"c99"}"#)
        #expect(missing.status == 503 && missing.problem == "unavailable", "\(missing.text)")
        #expect(ContinuousClock.now - start < .seconds(10))
        try await stream.until("it cannot be written") { $0.name == "access" && $0.data == #"{"writable":false}"# }
        #expect(try await other.board().board.title == "Before")
        #expect(try await other.watch().next("access").data == #"{"writable":false}"#)
        for server in [one, other] {
            let health = try await server.ask("GET", "/health")
            #expect(health.status == 200 && health.text.contains(#""status":"read-only""#), "\(health.text)")
        }
        // A server ends and starts as usual.
        #expect(await one.end() == 0)
        async let starting = self.start()
        // A command whose time is not up is performed once the log is back.
        async let waiting = patient.command(#"{"type":"rename","title":"After"}"#)
        try await eventually("the command waits") {
            try await patient.ask("GET", "/metrics").text
                .contains("\nhttp_server_active_requests{http_request_method=\"POST\"} 1\n")
        }
        try log.start()
        let waited = try await waiting
        #expect(waited.status == 200, "\(waited.text)")
        let next = try await starting
        try await stream.until("it can be written") { $0.name == "access" && $0.data == #"{"writable":true}"# }
        try await next.done(#"{"type":"rename","title":"In the end"}"#)
        let board = try await settled(next, other, patient)
        #expect(board.title == "In the end")
        #expect(board.lists[0].cards.filter { $0.title == "Unknown" }.count <= 1)
        for server in [next, other, patient] {
            try await eventually("it is well") {
                try await server.ask("GET", "/health").text == #"{"status":"ok"}"#
            }
        }
    }

    @Test("A title that is undone before it is listed stays in no list")
    func titles() async throws {
        let server = try await start()
        for round in 1...30 {
            // While other requests are under way, the list gets a title a little later than the board does.
            let adding = (1...6).map { _ in
                Task { while !Task.isCancelled { _ = try? await server.ask("POST", "/boards", #"{"title":"A"}"#) } }
            }
            try await server.done(#"{"type":"rename","title":"\#(round)"}"#)
            try await server.done(#"{"type":"undo"}"#)
            for task in adding { task.cancel() }
            for task in adding { await task.value }
            // Leaves time for updates that are still under way; a correct server needs none.
            try await Task.sleep(for: .milliseconds(100))
            try await eventually("the old title in the list, round \(round)") {
                let boards = try await server.ask("GET", "/boards").fields?.boards
                return boards?.contains(["id": "welcome", "title": "Welcome"]) == true
            }
        }
    }

    @Test("A server ends in time while a board is being opened and the log is silent, however patient it is")
    func endsWhileOpening() async throws {
        let one = try await start()
        let id = try #require(try await one.ask("POST", "/boards", #"{"title":"Plans"}"#).fields?.id)
        let other = try await start("--patience", "100", "--deadline", "4")
        try await eventually("the board at the other") { try await other.ask("GET", "/b/\(id)").status == 200 }
        log.send(SIGSTOP)
        defer { log.send(SIGCONT) }
        let opening = try RawConnection(port: other.port)
        opening.send("GET /boards/\(id)/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        // Besides the request for the metrics.
        try await eventually("the request is under way") {
            try await other.ask("GET", "/metrics").text
                .contains("\nhttp_server_active_requests{http_request_method=\"GET\"} 2\n")
        }
        let start = ContinuousClock.now
        await other.end()
        #expect(ContinuousClock.now - start < .seconds(30))
        withExtendedLifetime(opening) {}
    }

    @Test("Mistakes with the log are reported in one line")
    func mistakes() async throws {
        let stream = try await start()
        for (arguments, status, start) in [
            (
                ["--log", "127.0.0.1:4222"], 64,
                "Error: --log needs addresses such as nats://127.0.0.1:4222, not \""
            ),
            (
                ["--log", log.address + ","], 64,
                "Error: --log needs addresses such as nats://127.0.0.1:4222, not \""
            ),
            (["--log", log.address, "--replicas", "2"], 64, "Error: --replicas must be 1, 3 or 5.\n"),
            (["--log", log.address, "--patience", "0"], 64, "Error: --patience must be at least 1.\n"),
            (["--log", log.address], 1, "live-board: the log at \(log.address): "),
            (["--log", log.address, "--stream", "another"], 1, "live-board: the log at \(log.address): replicas > 1"),
            (["--log", log.address, "--stream", "a b"], 1, "live-board: the log at \(log.address): "),
        ] {
            let program = try Command(program: Command.built("live-board"), ["--port", "0"] + arguments)
            let result = await program.finish()
            #expect(result.status == status && result.output == "", "\(arguments)")
            #expect(result.errors.hasPrefix(start), "\(arguments): \(result.errors)")
            if status == 1 { #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)") }
        }
        let help = try await Command(program: Command.built("live-board"), ["--help"]).finish()
        for option in ["--log", "--stream", "--replicas", "--patience"] { #expect(help.output.contains(option)) }
        #expect(await stream.end() == 0)
    }
}
