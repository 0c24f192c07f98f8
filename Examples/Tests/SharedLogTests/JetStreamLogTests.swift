import FluxReplication
import FluxTesting
import Foundation
import LocalServers
import ProgramTesting
import Synchronization
import Testing

@testable import JetStreamLog

/// Each test has its own servers.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct JetStreamLogTests {
    @Test("Two clients of three servers see one log, with snapshots of any size and a trimmed beginning")
    func conforms() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(3, folder: folder.url.path)
        defer { cluster.end() }
        let first = try await eventually { try await JetStreamLog(servers: cluster.addresses, stream: "boards") }
        let second = try await eventually { try await JetStreamLog(servers: cluster.addresses, stream: "boards") }
        try await FluxConformance.sharedLog {
            try await JetStreamLog(servers: cluster.addresses, stream: "boards").log(for: "conformance")
        }
        try await expectOneLog(first.log(for: "b1"), second.log(for: "b1"))
        // Keys are arbitrary texts, and independent of each other.
        for key in ["", "b 1", "b.*.>", "Grüße\n"] {
            let log = first.log(for: key)
            #expect(try await log.end() == 0)
            let position = try await log.append(Array(key.utf8), key: key)
            #expect(try await log.end() == position)
            #expect(try await entries(1, of: second.log(for: key)).map(\.entry) == [Array(key.utf8)])
        }
    }

    @Test(
        "When the leader is killed, no acknowledged append is lost, and the order stays"
    )
    func survivesLeader() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(3, folder: folder.url.path)
        defer { cluster.end() }
        let logs = try await eventually { try await JetStreamLog(servers: cluster.addresses, stream: "boards") }
        let log = logs.log(for: "b1")
        var positions: [UInt64] = []
        for number in 0..<200 {
            if number == 100 {
                let leader = try await #require(logs.leader())
                try #require(cluster.servers.first { $0.name == leader }).kill()
            }
            positions.append(try await eventually { try await log.append(Array("\(number)".utf8), key: "\(number)") })
        }
        #expect(try await eventually { try await log.end() } == positions.last)
        let read = try await eventually { try await entries(200, of: log) }
        // An append whose answer was lost may be there twice: its repetition comes directly after it.
        var seen: Set<[UInt8]> = []
        #expect(read.map(\.entry).filter { seen.insert($0).inserted } == (0..<200).map { Array("\($0)".utf8) })
        #expect(Set(positions).isSubset(of: read.map(\.position)))
    }

    @Test("A reader of a deleted stream fails with an error that names the stream")
    func isToldOfStream() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let log = try await boards(on: cluster).log(for: "b1")
        cluster.servers[0].kill()
        try FileManager.default.removeItem(at: folder.url.appending(path: "n1/jetstream"))
        try cluster.servers[0].start()

        let (wanted, deadline) = (
            FluxSharedLogError.unavailable("the stream boards does not exist"), ContinuousClock.now + .seconds(40)
        )
        var error = FluxSharedLogError?.none
        while error != wanted, .now < deadline {
            do {
                try await log.read(after: 0) { _ in }
            } catch let failure as FluxSharedLogError {
                // Until the log has connected again, there is another reason.
                error = failure
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        #expect(error == wanted)
    }

    @Test("A connection that a server closes is reported with its reason, and the log and its readers continue")
    func survivesError() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let logs = try await boards(on: cluster)
        let log = logs.log(for: "b1")
        let first = try await log.append([1], key: "1")
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let reading = Task {
            let read = Mutex<[[UInt8]]>([])
            try? await log.read(after: 0) { entries in
                read.withLock { $0 += entries.map(\.entry) }
                begin.yield()
                if read.withLock({ $0.count }) == 2 { throw CancellationError() }
            }
            return read.withLock { $0 }
        }
        for await _ in begun { break }
        // No key leads to such a subject, because it is longer than a line that a server reads.
        let lost = "the log is not available: the connection was lost before the answer arrived"
        await expect("\(lost); the last error was: maximum control line exceeded") {
            _ = try await logs.add([], as: String(repeating: "x", count: 5_000))
        }
        let second = try await eventually { try await log.append([2], key: "2") }
        #expect(first < second)
        #expect(await reading.value == [[1], [2]])
    }

    @Test("Servers that reject all clients for a while are reported as that, and the log continues afterwards")
    func survivesRejection() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let log = try await boards(on: cluster).log(for: "b1")
        let settings = folder.url.appending(path: "n1/server.conf")
        let right = try String(contentsOf: settings, encoding: .utf8)
        try (right + "authorization { user: x, password: y }").write(to: settings, atomically: true, encoding: .utf8)
        cluster.servers[0].send(SIGHUP)
        // The C client retries until it has been rejected twice.
        var reason = ""
        while !reason.lowercased().contains("closed") {
            do { _ = try await log.append([1], key: "1") } catch { reason = "\(error)" }
        }
        #expect(reason.hasPrefix("the log is not available") && reason.contains("Violation"), "\(reason)")
        try right.write(to: settings, atomically: true, encoding: .utf8)
        cluster.servers[0].send(SIGHUP)
        let position = try await eventually { try await log.append([2], key: "2") }
        #expect(try await log.end() == position)
    }

    @Test("A key may have 2,600 bytes; a longer one is refused and does not affect others")
    func keys() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(3, folder: folder.url.path)
        defer { cluster.end() }
        // As long as a stream's name may be.
        let name = String(repeating: "s", count: 240)
        let logs = try await eventually { try await JetStreamLog(servers: cluster.addresses, stream: name) }
        let log = logs.log(for: String(repeating: "é", count: 433) + "ab")
        #expect(log.token.utf8.count == 2_600)
        let position = try await log.append([1], key: "1")
        #expect(try await log.end() == position)
        #expect(try await entries(1, of: log).map(\.entry) == [[1]])
        try await log.save(FluxSharedSnapshot(position: position, state: [2]))
        #expect(try await log.snapshot()?.state == [2])
        try await log.trim(through: position)
        await #expect(throws: FluxSharedLogError.trimmed(through: position)) { try await log.read(after: 0) { _ in } }

        let longer = logs.log(for: String(repeating: "é", count: 433) + "abc")
        let calls: [@Sendable () async throws -> Void] = [
            { _ = try await longer.append([1], key: "1") }, { _ = try await longer.end() },
            { _ = try await longer.snapshot() }, { try await longer.trim(through: 1) },
            { try await longer.save(FluxSharedSnapshot(position: 1, state: [1])) },
            { try await longer.read(after: 0) { _ in } },
        ]
        for call in calls {
            await expect("the log refused the call: the key takes 2601 bytes in a subject; the limit is 2,600", call)
        }
        #expect(try await log.append([3], key: "3") > position)
    }

    @Test("A cancelled call that waits for a stopped server ends soon")
    func cancels() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let log = try await boards(on: cluster).log(for: "b1")
        let position = try await log.append([1], key: "1")
        cluster.servers[0].send(SIGSTOP)
        try await expectCancelled(log, after: position)
        cluster.servers[0].send(SIGCONT)
        #expect(try await eventually { try await log.end() } >= position)
    }

    @Test("A call of end() does not wait behind one whose request was lost in an election")
    func asksAgain() async throws {
        // On a busy machine the first call may begin after the election, or lose its connection: then nothing is lost.
        for _ in 1...3 where try await loseOne() { return }
        Issue.record("No request was lost.")
    }

    /// Returns whether a call of `end()` was still waiting when a later one had its answer.
    private func loseOne() async throws -> Bool {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(3, folder: folder.url.path)
        defer { cluster.end() }
        let all = try await eventually { try await JetStreamLog(servers: cluster.addresses, stream: "boards") }
        let leader = try await #require(all.leader())
        let other = try #require(cluster.servers.first { $0.name != leader })
        let logs = try await JetStreamLog(servers: [other.address], stream: "boards", timeout: .seconds(100))
        let log = logs.log(for: "b1")
        let position = try await log.append([1], key: "1")
        try #require(cluster.servers.first { $0.name == leader }).send(SIGSTOP)
        let isLost = Atomic(true)
        let lost = Task {
            defer { isLost.store(false, ordering: .relaxed) }
            return try await log.end()
        }
        defer { lost.cancel() }
        while true {
            let leads = try? await logs.leader()
            if let leads, leads != leader { break }
        }
        #expect(try await log.end() == position)
        return isLost.load(ordering: .relaxed)
    }

    @Test("A publish without permission fails at once, and works once it is permitted")
    func permissions() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let settings = folder.url.appending(path: "n1/server.conf")
        let right = try String(contentsOf: settings, encoding: .utf8)
        func permit(_ permissions: String) throws {
            try (right + "authorization { users: [ { user: u, password: p, permissions: { \(permissions) } } ] }")
                .write(to: settings, atomically: true, encoding: .utf8)
        }
        try permit(#"publish: { deny: ["boards.*.entry"] }"#)
        cluster.servers[0].kill()
        try cluster.servers[0].start()
        let logs = try await eventually {
            try await JetStreamLog(
                servers: ["nats://u:p@127.0.0.1:\(cluster.servers[0].port)"], stream: "boards", replicas: 1,
                timeout: .seconds(100))
        }
        // The client truncates long texts.
        for key in ["b1", String(repeating: "k", count: 300)] {
            let log = logs.log(for: key)
            let reason = #"the log is not available: Permissions Violation for Publish to "boards.\#(key).entry""#
            await expect(String(reason.prefix(250))) { _ = try await log.append([1], key: "1") }
            #expect(try await log.end() == 0)
        }
        try permit("")
        cluster.servers[0].send(SIGHUP)
        let position = try await eventually { try await logs.log(for: "b1").append([2], key: "2") }
        #expect(try await logs.log(for: "b1").end() == position)
    }

    @Test("A snapshot head that no client can have saved does not crash the program")
    func foreignHead() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let logs = try await boards(on: cluster)
        for (parts, bytes, wanted) in [
            (0, Int.max, "the log is not"), (-1, 0, "the log refused"), (0, -1, "the log refused"),
        ] {
            let log = logs.log(for: "b\(parts)\(bytes)")
            let head = #"{"position":1,"upload":"x","parts":\#(parts),"bytes":\#(bytes)}"#
            _ = try await logs.add(Array(head.utf8), as: "\(logs.snapshots).\(log.token).head")
            await expect(wanted) { _ = try await log.snapshot() }
        }
    }

    @Test("An existing stream that could lose acknowledged entries is refused")
    func losesNothing() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let logs = try await boards(on: cluster)
        var forgetful = JetStream.StreamSettings(name: "old", subjects: ["old.*.*"], num_replicas: 1)
        forgetful.max_age = 3_600_000_000_000
        var fleeting = JetStream.StreamSettings(name: "memory", subjects: ["memory.*.*"], num_replicas: 1)
        fleeting.storage = "memory"
        var queue = JetStream.StreamSettings(name: "queue", subjects: ["queue.*.*"], num_replicas: 1)
        queue.retention = "workqueue"
        for (settings, difference) in [
            (forgetful, "max_age is 3600000000000, not 0"), (fleeting, "storage is memory, not file"),
            (queue, "retention is workqueue, not limits"),
        ] {
            let name = settings.name
            _ = try await logs.ask(
                "STREAM.CREATE.\(name)", JetStream.encode(settings), JetStream.StreamAnswer.self)
            await expect("the log refused the call: the stream \(name) exists, but its \(difference)") {
                _ = try await JetStreamLog(servers: cluster.addresses, stream: name, replicas: 1)
            }
        }
    }

    @Test(
        "Large entries, invalid names and other replica counts are refused; absent servers are unavailable"
    )
    func refuses() async throws {
        let folder = try TemporaryFolder()
        let cluster = try NatsCluster(1, folder: folder.url.path)
        defer { cluster.end() }
        let logs = try await boards(on: cluster)
        let log = logs.log(for: "b1")
        await #expect(
            throws: FluxSharedLogError.refused(
                "1048576 bytes for boards.b1.entry exceed the servers' limit of 1048576")
        ) {
            try await log.append(Array(repeating: 0, count: 1 << 20), key: "large")
        }
        await expect("the log refused") { _ = try await JetStreamLog(servers: cluster.addresses, stream: "a b") }
        await expect("the log refused the call: the stream boards exists, but its num_replicas is 1, not 3") {
            _ = try await JetStreamLog(servers: cluster.addresses, stream: "boards")
        }
        for replicas in [3, 6] {
            await expect("the log refused the call: ") {
                _ = try await JetStreamLog(servers: cluster.addresses, stream: "another", replicas: replicas)
            }
        }
        cluster.servers[0].kill()
        await expect("the log is not") { _ = try await log.append([1], key: "late") }
        await expect("the log is not") { _ = try await log.end() }
        await expect("the log is not") { _ = try await JetStreamLog(servers: cluster.addresses, stream: "boards") }
    }
}

/// A stream on one server, once the server is available.
private func boards(on cluster: NatsCluster) async throws -> JetStreamLog {
    try await eventually { try await JetStreamLog(servers: cluster.addresses, stream: "boards", replicas: 1) }
}
