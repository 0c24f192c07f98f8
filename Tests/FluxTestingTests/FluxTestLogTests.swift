import FluxCore
import FluxReplication
import FluxTesting
import Testing

/// The faults of the log for tests, and when they occur.
@Suite(.timeLimit(.minutes(1))) struct FluxTestLogTests {
    func log(_ fault: WritableKeyPath<FluxTestLog.Faults, Int>, window: Int = 100) -> FluxTestLog {
        var faults = FluxTestLog.Faults.none
        faults[keyPath: fault] = 100
        return FluxTestLog(seed: 3, faults: faults, window: window)
    }

    @Test("Positions rise, with gaps")
    func positions() async throws {
        let log = FluxTestLog()
        for number in 0..<10 { _ = try await log.append([UInt8(number)], key: "\(number)") }
        let positions = log.entries.map(\.position)
        #expect(positions == positions.sorted() && Set(positions).count == 10 && positions.last! > 10)
    }

    @Test("A key is known while it is among the newest")
    func keys() async throws {
        let log = FluxTestLog(window: 2)
        let first = try await log.append([1], key: "a")
        #expect(try await log.append([1], key: "a") == first)
        _ = try await log.append([2], key: "b")
        _ = try await log.append([3], key: "c")
        #expect(try await log.append([1], key: "a") > first)
        #expect(log.entries.map(\.entry) == [[1], [2], [3], [1]])
    }

    @Test("A lost request is not stored, one without an answer is, and a late one is some calls later")
    func requests() async throws {
        let lost = log(\.lost)
        await #expect(throws: FluxSharedLogError.unavailable("the request was lost")) {
            try await lost.append([1], key: "a")
        }
        #expect(lost.entries.isEmpty)

        let unanswered = log(\.unanswered)
        await #expect(throws: FluxSharedLogError.unavailable("the answer was lost")) {
            try await unanswered.append([1], key: "a")
        }
        #expect(unanswered.entries.count == 1)

        let late = log(\.late)
        await #expect(throws: FluxSharedLogError.unavailable("the request is late")) {
            try await late.append([1], key: "a")
        }
        #expect(late.entries.isEmpty)
        for _ in 0..<20 { _ = try await late.end() }
        #expect(late.entries.count == 1)
    }

    @Test("A repeated entry is stored twice, even though its key is known")
    func repeated() async throws {
        let log = log(\.repeated)
        _ = try await log.append([1], key: "a")
        for _ in 0..<20 { _ = try await log.end() }
        #expect(log.entries.map(\.entry) == [[1], [1]])
    }

    @Test("An outage ends after some calls")
    func outages() async throws {
        var faults = FluxTestLog.Faults.none
        faults.outages = 20
        let log = FluxTestLog(seed: 1, faults: faults)
        var answers: [Bool] = []
        for _ in 0..<200 { answers.append((try? await log.end()) != nil) }
        #expect(answers.contains(true) && zip(answers, answers.dropFirst()).contains { !$0 && !$1 })
    }

    @Test("The same seed gives the same run, and another seed a different one")
    func seeds() async throws {
        func run(_ seed: UInt64) async -> [UInt64] {
            let log = FluxTestLog(seed: seed, faults: .many)
            for number in 0..<100 { _ = try? await log.append([UInt8(number)], key: "\(number)") }
            return log.entries.flatMap { [$0.position, UInt64($0.entry[0])] }
        }
        #expect(await run(1) == run(1))
        #expect(await run(1) != run(2))
    }

    /// Reads a log from its beginning; returns a recorder of the entries that it gets, and the task that reads.
    private func reading(_ log: FluxTestLog) -> (FluxRecorder<UInt8>, Task<Void, any Error>) {
        let read = FluxRecorder<UInt8>()
        return (read, Task { try await log.read(after: 0) { for entry in $0 { read.record(entry.entry[0]) } } })
    }

    @Test("Paused readers get no entries, and do not learn of a trim")
    func paused() async throws {
        let log = FluxTestLog()
        log.arePaused = true
        _ = try await log.append([1], key: "a")
        let (read, reading) = reading(log)
        for _ in 0..<100 { await Task.yield() }
        #expect(read.elements.isEmpty)
        // Readers do not learn of a trim either.
        _ = try await log.append([2], key: "b")
        try await log.trim(through: 1)
        for _ in 0..<100 { await Task.yield() }
        log.arePaused = false
        await #expect(throws: FluxSharedLogError.trimmed(through: 1)) { try await reading.value }
        #expect(read.elements.isEmpty)
    }

    @Test("Readers fail while the log is unavailable")
    func readers() async throws {
        let log = FluxTestLog()
        _ = try await log.append([1], key: "a")
        let (read, reading) = reading(log)
        await read.count(1)
        log.isAvailable = false
        await #expect(throws: FluxSharedLogError.unavailable("the log is down")) { try await reading.value }
        await #expect(throws: FluxSharedLogError.unavailable("the log is down")) { try await log.end() }
        log.isAvailable = true
        #expect(try await log.end() > 0)
    }

    @Test(
        "Readers fail even if the log is back at once, or if they are paused", .timeLimit(.minutes(1)),
        arguments: [false, true])
    func shortOutage(arePaused: Bool) async throws {
        let log = FluxTestLog()
        _ = try await log.append([1], key: "a")
        let (read, reading) = reading(log)
        await read.count(1)
        log.arePaused = arePaused
        (log.isAvailable, log.isAvailable) = (false, true)
        log.arePaused = false
        _ = try await log.append([2], key: "b")
        await #expect(throws: FluxSharedLogError.unavailable("the log was down")) { try await reading.value }
        #expect(read.elements == [1])
    }
}
