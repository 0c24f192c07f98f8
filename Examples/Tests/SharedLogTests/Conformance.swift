import FluxReplication
import Testing

/// Retries for a while what is unavailable at first, for example during an election.
func eventually<Value>(_ body: () async throws -> Value) async throws -> Value {
    let deadline = ContinuousClock.now + .seconds(40)
    while true {
        do {
            return try await body()
        } catch let error as FluxSharedLogError {
            guard case .unavailable = error, .now < deadline else { throw error }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}

private struct Enough: Error {}

/// Reads this many entries after a position.
func entries(
    _ count: Int, of log: some FluxSharedLog<[UInt8]>, after position: UInt64 = 0
) async throws -> [FluxSharedEntry<[UInt8]>] {
    var all: [FluxSharedEntry<[UInt8]>] = []
    do {
        try await log.read(after: position) { entries in
            #expect(!entries.isEmpty)
            all += entries
            if all.count >= count { throw Enough() }
        }
    } catch is Enough {}
    return all
}

/// Checks what the library's own check of an engine cannot see; takes two logs of one key, on two connections.
func expectOneLog(
    _ first: some FluxSharedLog<[UInt8]>, _ second: some FluxSharedLog<[UInt8]>
) async throws {
    // Many writers at once: each log has all entries, in one order.
    let reading = Task { try await entries(400, of: second) }
    let positions = try await withThrowingTaskGroup(of: UInt64.self) { group in
        for number in 0..<200 {
            group.addTask { try await first.append(Array("first \(number)".utf8), key: "first \(number)") }
            group.addTask { try await second.append(Array("second \(number)".utf8), key: "second \(number)") }
        }
        return try await group.reduce(into: []) { $0.append($1) }
    }
    let read = try await reading.value
    #expect(Set(positions).count == 400)
    #expect(read.map(\.position) == positions.sorted())
    #expect(Set(read.map { String(decoding: $0.entry, as: UTF8.self) }).count == 400)
    #expect(try await entries(400, of: first).map(\.entry) == read.map(\.entry))
    #expect(try await first.end() == positions.max())

    // A snapshot that is larger than any message may be.
    let state = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
    let middle = read[200].position
    try await first.save(FluxSharedSnapshot(position: middle, state: state))
    try await second.save(FluxSharedSnapshot(position: middle - 1, state: []))
    let stored = try await second.snapshot()
    #expect(stored?.position == middle)
    #expect(stored?.state == state)
    try await second.save(FluxSharedSnapshot(position: middle + 1, state: [1]))
    #expect(try await first.snapshot()?.state == [1])

    // A trim is reported, and the entries after it are still there.
    try await first.trim(through: middle)
    await #expect(throws: FluxSharedLogError.trimmed(through: middle)) {
        try await second.read(after: middle - 1) { _ in }
    }
    #expect(try await entries(199, of: second, after: middle).map(\.entry) == read[201...].map(\.entry))
    try await second.trim(through: .max)
    #expect(try await first.end() == positions.max())
    let next = try await first.append([], key: "after everything was trimmed")
    #expect(try await second.end() == next)
    let last = try await entries(1, of: second, after: next - 1)
    #expect(last.map(\.entry) == [[]])

    // A waiting reader ends when its task is cancelled.
    let waiting = Task { try await first.read(after: next) { _ in Issue.record("there is nothing to read") } }
    try await Task.sleep(for: .milliseconds(200))
    waiting.cancel()
    try await waiting.value
}

/// Expects that each call ends soon once its task is cancelled if no server answers; the log ends at a position.
func expectCancelled(_ log: some FluxSharedLog<[UInt8]>, after position: UInt64) async throws {
    let calls: [@Sendable () async throws -> Void] = [
        { _ = try await log.append([2], key: "2") }, { _ = try await log.append([3], key: "3") },
        { _ = try await log.end() }, { _ = try await log.snapshot() }, { try await log.trim(through: position) },
        { try await log.save(FluxSharedSnapshot(position: position, state: [])) },
        { try await log.read(after: position) { _ in } },
    ]
    // Above all before the call waits, and also while it does.
    for pause in [0, 20] { for call in calls { try await expectCancelled(after: .milliseconds(pause), call) } }
}

/// Expects that a call ends soon once its task is cancelled.
func expectCancelled(after pause: Duration, _ call: @escaping @Sendable () async throws -> Void) async throws {
    let task = Task { try await call() }
    try await Task.sleep(for: pause)
    task.cancel()
    do {
        try await task.value
    } catch {
        #expect(error as? FluxSharedLogError == .unavailable("the task was cancelled"))
    }
}

/// Expects an error whose text begins with this one.
func expect(_ start: String, _ body: () async throws -> Void) async {
    do {
        try await body()
        Issue.record("nothing is thrown where \(start) is expected")
    } catch {
        #expect("\(error)".hasPrefix(start), "\(error)")
    }
}
