import FluxReplication
import LocalServers
import PostgresLog
import ProgramTesting
import Testing

@Suite struct QuickPostgres {
    @Test func quick() async throws {
        let folder = try TemporaryFolder()
        let server = try PostgresServer(folder: folder.url.path)
        defer { server.end() }
        do { _ = try await PostgresLog("host=127.0.0.1 port=1", name: "x") } catch { print(error) }
        let logs = try await PostgresLog(server.address, name: "boards")
        let log = logs.log(for: "b 1'")
        print(try await log.end())
        var t = ContinuousClock.now
        for i in 0..<500 { _ = try await log.append(Array("e\(i)".utf8), key: "k\(i)") }
        print("500 one by one", ContinuousClock.now - t)
        t = .now
        try await withThrowingTaskGroup(of: UInt64.self) { group in
            for i in 0..<10000 { group.addTask { try await log.append(Array("f\(i)".utf8), key: "f\(i)") } }
            try await group.waitForAll()
        }
        print("10000 at once", ContinuousClock.now - t)
        t = .now
        print(try await log.end(), ContinuousClock.now - t)
        t = .now
        struct Done: Error {}
        var count = 0
        do {
            try await log.read(after: 0) { entries in
                count += entries.count
                if count == 10500 { throw Done() }
            }
        } catch is Done {}
        print("read", count, ContinuousClock.now - t)
        try await log.save(FluxSharedSnapshot(position: 100, state: Array(repeating: 7, count: 3_000_000)))
        try await log.save(FluxSharedSnapshot(position: 90, state: []))
        let s = try await log.snapshot()
        #expect(s?.position == 100 && s?.state.count == 3_000_000)
        try await log.trim(through: 100)
        await #expect(throws: FluxSharedLogError.trimmed(through: 100)) { try await log.read(after: 99) { _ in } }
        try await log.trim(through: 1_000_000_000)
        print(try await log.end())
        let reading = Task { try await log.read(after: 10500) { print($0.count) } }
        try await Task.sleep(for: .seconds(1))
        print(try await log.append([], key: "empty"))
        try await Task.sleep(for: .milliseconds(300))
        t = .now
        reading.cancel()
        try await reading.value
        print("cancelled", ContinuousClock.now - t)
    }
}
