import FluxReplication
import FluxTesting
import LocalServers
import ProgramTesting
import Testing

@testable import PostgresLog

/// Each test has a server of its own.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct PostgresLogTests {
    @Test("Two clients see one log, whose snapshots may be of any size and whose beginning may go")
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

    @Test("A zero byte in a key and a name that is none are refused, and a server that is not there is unavailable")
    func refuses() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        let logs = try await PostgresLog(server.address, name: "boards")
        await #expect(throws: FluxSharedLogError.refused("a key with a zero byte")) {
            try await logs.log(for: "a\0b").append([], key: "1")
        }
        await #expect(
            throws: FluxSharedLogError.refused("\"A b\" is no name for tables: lower-case letters, digits and _")
        ) {
            _ = try await PostgresLog(server.address, name: "A b")
        }
        server.kill()
        for _ in 0..<2 {
            do {
                _ = try await logs.log(for: "b1").append([], key: "1")
                Issue.record("a server that was killed has answered")
            } catch FluxSharedLogError.unavailable {}
        }
    }

    @Test("A connection that is lost before anybody listens on it stops nothing")
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
