import FluxReplication
import FluxTesting
import Foundation
import LocalServers
import ProgramTesting
import Synchronization
import Testing

@testable import PostgresLog

/// Each test has its own server.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct PostgresLogTests {
    @Test("Two clients see one log, with snapshots of any size and a trimmed beginning")
    func conforms() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let first = try await PostgresLog(server.address, name: "boards")
        let second = try await PostgresLog(server.address, name: "boards")
        try await FluxConformance.sharedLog {
            try await PostgresLog(server.address, name: "boards").log(for: "conformance")
        }
        try await expectOneLog(first.log(for: "b1"), second.log(for: "b1"))
        for key in ["", "b'1", "Grüße\n\"{}\\"] {
            let log = first.log(for: key)
            #expect(try await log.end() == 0)
            #expect(try await log.append(Array(key.utf8), key: key) == 1)
            #expect(try await log.append(Array(key.utf8), key: key) == 1, "a repetition is known")
            #expect(try await entries(1, of: second.log(for: key)).map(\.entry) == [Array(key.utf8)])
        }
    }

    @Test("A request without an answer fails in time, and does not wait forever")
    func silent() async {
        let error = await #expect(throws: FluxSharedLogError.self) { _ = try await Answer<Int>().get(sending: 0) }
        #expect(error == .unavailable("PostgreSQL: no answer in time"))
    }

    @Test("A zero byte in a key and an invalid name are refused, and an absent server is unavailable")
    func refuses() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let logs = try await PostgresLog(server.address, name: "boards")
        await #expect(throws: FluxSharedLogError.refused("the key contains a zero byte")) {
            try await logs.log(for: "a\0b").append([], key: "1")
        }
        for name in ["A b", "", "0a", String(repeating: "x", count: 56)] {
            let reason = "\"\(name)\" is not a valid table prefix: use 1 to 55 of a-z, 0-9 and _, no digit first"
            await #expect(throws: FluxSharedLogError.refused(reason)) {
                _ = try await PostgresLog(server.address, name: name)
            }
        }
        server.kill()
        for _ in 0..<2 {
            do {
                _ = try await logs.log(for: "b1").append([], key: "1")
                Issue.record("a server that was killed has answered")
            } catch FluxSharedLogError.unavailable {}
        }
    }

    @Test("Tables can be named like a keyword of SQL, and a reader fails if nothing would wake it")
    func listens() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        for name in ["order", String(repeating: "x", count: 55)] {
            let logs = try await PostgresLog(server.address, name: name)
            let reading = Task { try await entries(2, of: logs.log(for: "b1")).map(\.position) }
            #expect(try await logs.log(for: "b1").append([], key: "1") == 1)
            // A reader checks the log itself whenever listening begins or fails; this comes after that.
            for _ in 0..<2 { await logs.bell.session.whenFree() }
            #expect(logs.bell.trouble.withLock { $0 } == nil)
            #expect(try await logs.log(for: "b1").append([], key: "2") == 2)
            #expect(try await reading.value == [1, 2])
            let trouble = FluxSharedLogError.unavailable("nothing is heard")
            logs.bell.trouble.withLock { $0 = trouble }
            await #expect(throws: trouble) { try await entries(3, of: logs.log(for: "b1")) }
        }
        let session = Session(server.address)
        let bell = Bell(session, channel: "")
        bell.listen()
        await session.whenFree()
        let trouble = try #require(bell.trouble.withLock { $0 })
        #expect("\(trouble)".contains("syntax error") || "\(trouble)".contains("zero-length"), "\(trouble)")
    }

    @Test("40,000 concurrent appends to one key are all answered at the first attempt")
    func crowd() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let log = try await PostgresLog(server.address, name: "boards").log(for: "b1")
        let positions = try await withThrowingTaskGroup(of: UInt64.self) { group in
            for number in 0..<40_000 { group.addTask { try await log.append([1], key: "\(number)") } }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(positions == Set(1...40_000))
        // As many entries are trimmed at once.
        try await log.trim(through: 39_999)
        await #expect(throws: FluxSharedLogError.trimmed(through: 39_999)) {
            try await log.read(after: 39_998) { _ in }
        }
        let left = try await Session(server.address).run(
            "SELECT position FROM boards_entries WHERE $1 = $1", [[]])
        #expect(left.map { $0[0].number } == [40_000])
    }

    @Test("A repetition has the place of the first within a transaction too, and none is left empty")
    func repetitions() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let log = try await PostgresLog(server.address, name: "boards").log(for: "b1")
        #expect(try await log.append([1], key: "1") == 1)
        let session = Session(server.address)
        func positions(of keys: [String]) async throws -> [UInt64] {
            let keys = binary(keys.map { Array($0.utf8) })
            let rows = try await session.run("SELECT boards_append($1, $2, $3)", [Array("b1".utf8), keys, keys])
            return rows.map { $0[0].number }
        }
        #expect(try await positions(of: ["2", "1", "2", "3"]) == [2, 1, 2, 3])
        #expect(try await positions(of: ["2"]) == [2])
        #expect(try await log.end() == 3)
        #expect(try await log.append([4], key: "4") == 4)
        #expect(try await entries(4, of: log).map(\.entry) == [[1], Array("2".utf8), Array("3".utf8), [4]])
    }

    @Test("A statement has the time that it takes, but does not wait forever for a lock of another")
    func waits() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let log = try await PostgresLog(server.address, name: "boards").log(for: "b1")
        #expect(try await log.append([1], key: "1") == 1)
        _ = try await Session(server.address).run("ALTER DATABASE postgres SET statement_timeout = '3s'")
        let other = Session(server.address)
        // Takes as long as something large over a slow connection.
        _ = try await other.run("SELECT pg_sleep(6)")
        _ = try await other.run("BEGIN; SELECT 1 FROM boards_keys FOR UPDATE")
        await expect("the log is not available: PostgreSQL: ") { _ = try await log.append([2], key: "2") }
        _ = try await other.run("ROLLBACK")
        #expect(try await log.append([2], key: "2") == 2)
    }

    @Test("A server that accepts a connection but stays silent is unavailable, unless the address allows more time")
    func silence() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        server.send(SIGSTOP)
        await expect("the log is not available: ") { _ = try await Session(server.address).run("SELECT 1") }
        let waiting = Session(server.address + " connect_timeout=100")
        let patient = Task { try await waiting.run("SELECT 1").count }
        await expect("the log is not available: ") { _ = try await Session(server.address).run("SELECT 1") }
        server.send(SIGCONT)
        #expect(try await patient.value == 1)
    }

    @Test("A reader gets some megabytes at once, however many entries that is, or one larger entry")
    func batches() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let log = try await PostgresLog(server.address, name: "boards").log(for: "b1")
        let sizes = [1, 3 << 20, 2 << 20, 1 << 20, 9 << 20, 0, 0]
        for (number, size) in sizes.enumerated() {
            _ = try await log.append([UInt8](repeating: 7, count: size), key: "\(number)")
        }
        let batches = Mutex<[[Int]]>([])
        await #expect(throws: CancellationError.self) {
            try await log.read(after: 0) { entries in
                batches.withLock { $0.append(entries.map(\.entry.count)) }
                if entries.last?.position == UInt64(sizes.count) { throw CancellationError() }
            }
        }
        #expect(batches.withLock { $0 } == [[1, 3 << 20, 2 << 20], [1 << 20, 9 << 20], [0, 0]])
    }

    @Test("A session commits synchronously, whatever the default of the database is")
    func durable() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        _ = try await Session(server.address).run("ALTER DATABASE postgres SET synchronous_commit = off")
        let setting = try await Session(server.address).run("SHOW synchronous_commit")[0][0]
        #expect(setting == Array("on".utf8))
    }

    @Test("Keys and entries that are too large are refused, and those of the maximum size are stored")
    func sizes() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let logs = try await PostgresLog(server.address, name: "boards")
        // A key that no index can compress.
        let key = String((0..<2_601).map { _ in Character(Unicode.Scalar(UInt8.random(in: 0x21...0x7E))) })
        let (log, id) = (logs.log(for: String(key.dropLast())), String(key.prefix(64)))
        #expect(try await log.append([1], key: id) == 1)
        #expect(try await entries(1, of: log).map(\.entry) == [[1]])
        try await log.save(FluxSharedSnapshot(position: 1, state: [1]))
        await expect("the log refused the call: the key has 2601 bytes; the limit is 2,600") {
            _ = try await logs.log(for: key).append([], key: "1")
        }
        await expect("the log refused the call: the entry's key has 65 bytes; the limit is 64") {
            _ = try await log.append([], key: id + "x")
        }
        // Data that cannot be compressed takes longest.
        let source = try FileHandle(forReadingFrom: URL(filePath: "/dev/urandom"))
        let random = try #require(try source.read(upToCount: 256 << 20))
        #expect(try await log.append(Array(random), key: "1") == 2)
        #expect(try await entries(1, of: log, after: 1).first?.entry.count == 256 << 20)
        let large = [UInt8](repeating: 0, count: 256 << 20 + 1)
        await expect("the log refused the call: the entry has 268435457 bytes; the limit is 256 MB") {
            _ = try await log.append(large, key: "2")
        }
    }

    @Test(
        "A server, database or user that waiting cannot mend is refused, and an absent server is unavailable"
    )
    func connects() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        _ = try await Session(server.address).run("CREATE ROLE other LOGIN PASSWORD 'right'")
        try "host all other all scram-sha-256\nhost all all all trust"
            .write(to: folder.url.appending(path: "postgres/pg_hba.conf"), atomically: false, encoding: .utf8)
        _ = try await Session(server.address).run("SELECT pg_reload_conf()")
        // Until the server has read the new settings, it accepts every user.
        while (try? await Session(server.address + " user=other").run("SELECT 1")) != nil {}
        let others = [
            server.address + " user=other", server.address + " user=other password=wrong",
            server.address + "x", server.address + " user=nobody", "nonsense", "postgres://127.0.0.1:1/x?foo=bar",
        ]
        for address in others {
            await expect("the log refused the call: ") { _ = try await PostgresLog(address, name: "boards") }
        }
        // An address that was right once may be right again.
        let session = Session("host=127.0.0.1 port=\(server.port) user=flux dbname=other")
        _ = try await Session(server.address).run("CREATE DATABASE other")
        #expect(try await session.run("SELECT 1").count == 1)
        _ = try await Session(server.address).run("DROP DATABASE other WITH (FORCE)")
        for _ in 0..<3 { await expect("the log is not available: ") { _ = try await session.run("SELECT 1") } }
        await expect("the log is not available: ") {
            _ = try await PostgresLog("host=127.0.0.1 port=1 user=flux", name: "boards")
        }
    }

    @Test("A cancelled call that waits for a stopped server ends soon")
    func cancels() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let address = server.address
        let log = try await PostgresLog(address, name: "boards").log(for: "b1")
        #expect(try await log.append([1], key: "1") == 1)
        #expect(try await log.end() == 1)
        let others = "SELECT pid::bigint FROM pg_stat_activity WHERE datname IS NOT NULL AND $1 = $1"
        let processes = try await Session(address).run(others, [[]]).map { pid_t($0[0].number) }
        #expect(processes.count >= 3)
        func signal(_ signal: Int32) {
            server.send(signal)
            for process in processes { kill(process, signal) }
        }
        signal(SIGSTOP)
        defer { signal(SIGCONT) }
        try await expectCancelled(log, after: 1)
        for pause in [0, 20] {
            try await expectCancelled(after: .milliseconds(pause)) {
                _ = try await PostgresLog(address, name: "others")
            }
        }
        signal(SIGCONT)
        let position = try await log.append([2], key: "2")
        #expect(try await log.append([2], key: "2") == position)
    }

    @Test("A program that this one starts inherits no connection")
    func inheritance() async {
        await #expect(processExitsWith: .success) {
            let folder = try TemporaryFolder()
            let server = try PostgresServer(folder: folder.url.path)
            defer { server.end() }
            // The flags of a descriptor that is not open are -1.
            func inherited() -> [Int32] { (0..<1_024).filter { fcntl($0, F_GETFD) & FD_CLOEXEC == 0 } }
            let before = inherited()
            let logs = try await PostgresLog(server.address, name: "boards")
            await logs.bell.session.whenFree()
            #expect(logs.bell.trouble.withLock { $0 } == nil, "It does not listen.")
            #expect(Set(inherited()).isSubset(of: before))
        }
    }

    @Test("A connection that is lost before listening starts does no harm")
    func lostBeforeListening() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let session = Session(server.address)
        _ = try await session.run("SELECT 1")
        server.kill()
        Bell(session, channel: "boards").listen()
        await session.whenFree()
        await #expect(throws: FluxSharedLogError.self) { try await session.run("SELECT 1") }
    }
}

extension Session {
    /// Waits until all earlier statements have been answered.
    fileprivate func whenFree() async {
        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    }
}
