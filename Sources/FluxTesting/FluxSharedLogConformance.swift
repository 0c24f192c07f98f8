#if canImport(FluxCore)
    import FluxCore
#endif
#if canImport(FluxReplication)
    import FluxReplication
#endif

nonisolated extension FluxConformance {
    // MARK: - A shared log

    /// Checks that a shared log gives all clients the same entries in one order, and loses none that it has
    /// acknowledged.
    ///
    /// ```swift
    /// try await FluxConformance.sharedLog { try await MyLogs(url: url).log(for: "test") }
    /// ```
    ///
    /// - Parameters:
    ///   - duration: How long to wait for expected entries. The log's own calls, such as `append`, have to end by
    ///     themselves, and `read` has to suspend while it waits.
    ///   - clock: The clock that measures the duration.
    ///   - make: Opens the log as one more client. The log is empty at the first call, and has no other users.
    /// - Throws: ``Failure``, or what the log throws; `CancellationError` if the task is cancelled while it waits.
    nonisolated(nonsending) public static func sharedLog<Log: FluxSharedLog<[UInt8]>>(
        within duration: Swift.Duration = .seconds(30),
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        _ make: () async throws -> Log
    ) async throws {
        let (log, other) = (try await make(), try await make())
        let check = FluxSharedLogCheck(log: log, other: other, duration: duration, clock: clock)
        let all = try await check.appendingAtOnce(after: check.reading(check.appending()))
        try await check.snapshots(all)
        try await check.snapshotsAtOnce(all)
        try await check.trimming(all)
        // Two more clients, which have seen nothing of this.
        try await FluxSharedLogCheck(log: make(), other: make(), duration: duration, clock: clock).trimming(all)
        try await check.trimmingAll(all, make)
        try await check.overtaking()
        try await check.cancelling()
    }
}

/// The checks of a shared log, one after the other.
nonisolated private struct FluxSharedLogCheck<Log: FluxSharedLog<[UInt8]>> {
    typealias Known = [FluxSharedEntry<[UInt8]>]

    let log: Log
    let other: Log
    let duration: Swift.Duration
    let clock: any _Concurrency.Clock<Swift.Duration>

    func appending() async throws -> Known {
        let reader = FluxSharedLogReader(other, after: 0)
        defer { reader.cancel() }
        try await expect("the end of a new log", log.end(), 0)
        try await expect("whether a new log has a snapshot", log.snapshot() != nil, false)
        var known: Known = []
        // Every byte value, and more bytes than fit into one packet.
        let contents: [[UInt8]] = [Array(0...255), [7], Array(repeating: 200, count: 100_000)]
        for (number, bytes) in contents.enumerated() {
            known.append(FluxSharedEntry(position: try await log.append(bytes, key: key(4, number)), entry: bytes))
            try await expect("the end after an append", log.end(), known.last!.position)
            try await expect("the end that another client sees", other.end(), known.last!.position)
        }
        try ascending(known)
        let again = try await other.append([7], key: key(4, 1))
        if again != known[1].position {
            // The entry was added again, which is allowed: readers apply it once.
            known.append(FluxSharedEntry(position: again, entry: [7]))
            try ascending(known)
        }
        try await within("the entries since the log was empty", of: reader) { [count = known.count] in
            await reader.entries.count(count)
        }
        try same(reader.entries.elements, known)
        return known
    }

    func reading(_ known: Known) async throws -> Known {
        try await read(log, after: 0, known)
        try await read(other, after: 0, known)
        try await read(other, after: known[0].position, Array(known[1...]))

        let (reader, failing) = (FluxSharedLogReader(other, after: 0), FluxSharedLogReader(log, after: 0, fails: true))
        defer { for reader in [reader, failing] { reader.cancel() } }
        try await within("the error of the reader") { await failing.ended.count(1) }
        try expect("what a reading ends with", "\(failing.ended.elements)", "[\"Failure()\"]")
        try await within("the entries that are there", of: reader) { await reader.entries.count(known.count) }
        // The same bytes as an earlier entry. It has to come next: no earlier entry may come a second time before it.
        let position = try await log.append([7], key: key(4, known.count))
        let all: Known = known + [FluxSharedEntry(position: position, entry: [7])]
        try ascending(all)
        try await within("an entry that is new", of: reader) { await reader.entries.count(all.count) }
        try same(reader.entries.elements, all)
        // Each reading has to end without an error once its task is cancelled.
        reader.cancel()
        try await within("the end of a reading that was cancelled") { await reader.ended.count(1) }
        try expect("what a reading that was cancelled ends with", "\(reader.ended.elements)", "[\"\"]")
        return all
    }

    /// Four tasks append at the same time through both clients, while both clients read.
    func appendingAtOnce(after known: Known) async throws -> Known {
        let readers = [log, other].map { FluxSharedLogReader($0, after: known.last!.position) }
        defer { for reader in readers { reader.cancel() } }
        let appended = try await withThrowingTaskGroup(of: Known.self) { group in
            for writer in UInt8(0)..<4 {
                let log = writer < 2 ? log : other
                group.addTask {
                    var own: Known = []
                    // Together more than a log is likely to deliver at once.
                    for number in 0..<300 {
                        let bytes = [writer, UInt8(number / 256), UInt8(number % 256)]
                        let position = try await log.append(bytes, key: key(writer, number))
                        own.append(FluxSharedEntry(position: position, entry: bytes))
                    }
                    try ascending(own)
                    return own
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }.sorted { $0.position < $1.position }
        }
        for reader in readers {
            try await within("the entries of a busy log", of: reader) { await reader.entries.count(appended.count) }
            try same(reader.entries.elements, appended)
            try expect("the faults of the reading", reader.faults.withLock { $0 }, [])
        }
        // Two readings at the same time by one client: each has its own position.
        let half = appended.count / 2
        async let later: Void = read(other, after: appended[half - 1].position, Array(appended[half...]))
        try await read(other, after: 0, known + appended)
        try await later
        try await expect("the end after many appends", log.end(), appended.last!.position)
        return known + appended
    }

    func snapshots(_ known: Known) async throws {
        let large = [UInt8](repeating: 3, count: 200_000)
        let saves: [(position: UInt64, state: [UInt8], expected: [UInt8])] = [
            (known[1].position, [1], [1]), (known[0].position, [2], [1]), (known[1].position, [4], [1]),
            (known[2].position, large, large),
        ]
        for (saver, (position, state, expected)) in zip([log, other, other, log], saves) {
            try await saver.save(FluxSharedSnapshot(position: position, state: state))
            for client in [log, other] {
                let snapshot = try await client.snapshot()
                try expect("the position of the snapshot", snapshot?.position, Swift.max(position, known[1].position))
                try expect("the number of bytes of the snapshot", snapshot?.state.count, expected.count)
                try expect("the bytes of the snapshot", snapshot?.state, expected)
            }
        }
    }

    /// Saves snapshots concurrently through both clients, each with its own position; the newest has to remain.
    func snapshotsAtOnce(_ known: Known) async throws {
        func bytes(_ number: Int) -> [UInt8] { .init(repeating: UInt8(clamping: number), count: 200_000 + number) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 3...20 {
                let saver = number % 2 == 0 ? log : other
                group.addTask {
                    try await saver.save(FluxSharedSnapshot(position: known[number].position, state: bytes(number)))
                    let found = try await other.snapshot()
                    let place = known.lastIndex { $0.position == found?.position } ?? 0
                    try expect("the bytes of a snapshot read while others are saved", found?.state, bytes(place))
                }
            }
            try await group.waitForAll()
        }
        for client in [log, other] {
            let snapshot = try await client.snapshot()
            try expect("the position after many were saved at once", snapshot?.position, known[20].position)
            try expect("the bytes of the snapshot after that", snapshot?.state, bytes(20))
        }
    }

    func trimming(_ known: Known) async throws {
        let middle = known.count / 2
        try await log.trim(through: known[middle].position)
        try await log.trim(through: known[0].position)
        // Read from the start, and from the position trimmed last, which must not bring back what was trimmed before.
        let next = known[middle + 1].position
        try await nothingIsMissing(after: 0, known[...middle], before: next)
        try await nothingIsMissing(after: known[0].position, known[1...middle], before: next)
        try await read(other, after: known[middle].position, Array(known[(middle + 1)...]))
        try await expect("the end after entries were trimmed", other.end(), known.last!.position)
        try await expect("the snapshot after that", other.snapshot()?.position, known[20].position)
    }

    /// Checks that a reader gets either the trimmed entries, which a log may remove later, or an error.
    private func nothingIsMissing(
        after position: UInt64, _ trimmed: Known.SubSequence, before next: UInt64
    ) async throws {
        let reader = FluxSharedLogReader(other, after: position)
        defer { reader.cancel() }
        try await within("an answer to a read of trimmed entries") { await reader.either.count(1) }
        guard let end = reader.ended.elements.first else {
            return try same([reader.entries.elements[0]], Array(trimmed.prefix(1)))
        }
        if reader.reportsTrimmed(through: trimmed.first!.position..<next) { return }
        throw FluxConformance.Failure(description: "a read of trimmed entries ended with \"\(end)\"")
    }

    nonisolated(nonsending) func trimmingAll(_ known: Known, _ make: () async throws -> Log) async throws {
        let end = known.last!.position
        try await log.trim(through: end)
        try await expect("the end after all was trimmed", other.end(), end)
        try await nothingIsMissing(after: known[0].position, known[1...], before: end + 1)
        let late = try await make()
        try await expect("the end that a new client finds after all was trimmed", late.end(), end)
        let next = try await late.append([8], key: key(5, 0))
        try ascending([known.last!, FluxSharedEntry(position: next, entry: [8])])
        try await read(log, after: end, [FluxSharedEntry(position: next, entry: [8])])
    }

    /// Keeps a reader busy while entries are appended and some trimmed: it has to get each of them, or an error.
    func overtaking() async throws {
        let pause = (begun: FluxLatch(), end: FluxLatch())
        let reader = FluxSharedLogReader(other, after: try await log.end(), pausing: pause)
        defer {
            reader.cancel()
            pause.end.open()
        }
        var all: Known = []
        for number in UInt8(0)..<30 {
            all.append(
                FluxSharedEntry(position: try await log.append([number], key: key(6, Int(number))), entry: [number]))
            if number == 0 { try await within("the first entry", of: reader) { await pause.begun.wait() } }
            if number == 20 { try await log.trim(through: all[20].position) }
        }
        pause.end.open()
        var count = 0
        while reader.ended.elements.isEmpty, reader.entries.elements.count < all.count {
            count += 1
            try await within("the next entry, or that it was trimmed") { [count] in await reader.either.count(count) }
        }
        try same(reader.entries.elements, Array(all.prefix(reader.entries.elements.count)))
        if let end = reader.ended.elements.first {
            let count = reader.entries.elements.count
            let isTrimmed =
                count <= 20 && reader.reportsTrimmed(through: all[count].position..<all[21].position)
            try expect("whether the reader's error \"\(end)\" reports the trimmed entries", isTrimmed, true)
        }
    }

    /// Cancels an append; its entry may be in the log or not.
    func cancelling() async throws {
        let appending = _Concurrency.Task { [log, key = key(5, 1)] in
            while !_Concurrency.Task.isCancelled { await _Concurrency.Task.yield() }
            do throws(FluxSharedLogError) { _ = try await log.append([9], key: key) } catch {
                if case .unavailable = error { return }
                throw FluxConformance.Failure(description: "a cancelled append throws \(error)")
            }
        }
        appending.cancel()
        try await appending.value
    }

    // MARK: - Expectations

    /// Returns a key as long as those of a replica can get; only the last digits of its two numbers differ.
    private func key(_ writer: some BinaryInteger, _ number: Int) -> String {
        "3w5e11264sgs\(writer)-3w5e11264sgs\(String(number, radix: 36))"
    }

    private func read(_ log: Log, after position: UInt64, _ expected: Known) async throws {
        let reader = FluxSharedLogReader(log, after: position)
        defer { reader.cancel() }
        try await within("the entries after \(position)", of: reader) { await reader.entries.count(expected.count) }
        try same(Array(reader.entries.elements.prefix(expected.count)), expected)
    }

    private func same(_ entries: Known, _ expected: Known) throws {
        try expect("the positions", entries.map(\.position), expected.map(\.position))
        for (entry, expected) in zip(entries, expected) {
            try expect("the number of bytes at \(entry.position)", entry.entry.count, expected.entry.count)
            try expect("the bytes at \(entry.position)", entry.entry, expected.entry)
        }
    }

    private func ascending(_ entries: Known) throws {
        for (entry, before) in zip(entries, [0] + entries.map(\.position)) where entry.position <= before {
            throw FluxConformance.Failure(
                description: "an append got the position \(entry.position) after one that got \(before)")
        }
    }

    private func expect<Value: Equatable>(_ what: String, _ actual: Value, _ expected: Value) throws {
        try FluxConformance.expect(what, actual, expected)
    }

    /// Waits for at most `duration`; fails earlier if the reading ends, because no more entries can come then.
    private func within(
        _ what: String, of reader: FluxSharedLogReader<Log>? = nil, _ wait: @escaping @Sendable () async -> Void
    ) async throws {
        let waiting = _Concurrency.Task {
            await wait()
            return !_Concurrency.Task.isCancelled
        }
        let sleeping = _Concurrency.Task { [clock, duration] in
            await fluxSleep(duration, on: clock)
            waiting.cancel()
        }
        let ending = _Concurrency.Task {
            await reader?.ended.count(1)
            if reader != nil { waiting.cancel() }
        }
        defer { for task in [sleeping, ending] { task.cancel() } }
        // A check that is cancelled waits no longer.
        let hasCome = await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            waiting.cancel()
        }
        try _Concurrency.Task.checkCancellation()
        if !hasCome {
            let end = reader?.ended.elements.first.map { ": the reading ended with \"\($0)\"" } ?? " within \(duration)"
            throw FluxConformance.Failure(description: "\(what) did not come\(end)")
        }
    }
}

/// One reading of a log, and what it received.
nonisolated private final class FluxSharedLogReader<Log: FluxSharedLog<[UInt8]>>: Sendable {
    struct Failure: Swift.Error {}

    let entries = FluxRecorder<FluxSharedEntry<[UInt8]>>()
    /// What the reading ended with; "" for no error, or for the one that a cancelled task may get.
    let ended = FluxRecorder<String>()
    /// One element for each batch of entries, and one for the end.
    let either = FluxRecorder<Bool>()
    let faults = FluxLock<Swift.Set<String>>([])
    private let trimmed = FluxLock<UInt64?>(nil)
    private let isBusy = FluxLock(false)
    private let task = FluxLock<_Concurrency.Task<Void, Never>?>(nil)

    init(
        _ log: Log, after position: UInt64, fails: Bool = false,
        pausing pause: (begun: FluxLatch, end: FluxLatch)? = nil
    ) {
        let reading = { @Sendable [self] in
            do {
                try await log.read(after: position) { entries in
                    if fails { throw Failure() }
                    pause?.begun.open()
                    await pause?.end.wait()
                    let wasBusy = isBusy.withLock { Swift.exchange(&$0, with: true) }
                    if wasBusy { _ = faults.withLock { $0.insert("entries while it was busy with others") } }
                    if entries.isEmpty { _ = faults.withLock { $0.insert("no entries") } }
                    for entry in entries { self.entries.record(entry) }
                    if !entries.isEmpty { either.record(true) }
                    await _Concurrency.Task.yield()
                    isBusy.withLock { $0 = false }
                }
                ended.record("")
            } catch FluxSharedLogError.unavailable where _Concurrency.Task.isCancelled {
                ended.record("")
            } catch {
                if case FluxSharedLogError.trimmed(let through) = error { trimmed.withLock { $0 = through } }
                ended.record("\(error)")
            }
            either.record(false)
        }
        let task =
            if #available(macOS 26.0, iOS 26.0, tvOS 26.0, watchOS 26.0, visionOS 26.0, *) {
                // Starts to read at once, before anything is appended after this.
                _Concurrency.Task.immediate(operation: reading)
            } else {
                _Concurrency.Task(operation: reading)
            }
        self.task.withLock { $0 = task }
    }

    func cancel() { task.withLock { $0 }?.cancel() }

    /// Whether the reading ended with the error that the entries up to one of these positions are gone.
    func reportsTrimmed(through range: Range<UInt64>) -> Bool { trimmed.withLock { $0.map(range.contains) ?? false } }
}
