#if canImport(FluxCore)
    import FluxCore
#endif
#if canImport(FluxReplication)
    import FluxReplication
#endif

/// A shared log in memory that fails as a real log can: at random, from a seed, and when a test tells it to.
///
/// ```swift
/// let log = FluxTestLog(seed: 7, faults: .many)
/// let one = try await FluxReplica.joined(log: log, initialState: Todo(), coding: coding, backoff: .none)
/// let other = try await FluxReplica.joined(log: log, initialState: Todo(), coding: coding, backoff: .none)
/// try await one.dispatch(action: .add("milk"))
/// ```
///
/// No clock decides anything. A late entry arrives some calls later, and a caller that waits for a delayed answer lets
/// other tasks run in the meantime. The log is that of one key, and all its clients may use the same object.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxTestLog: FluxSharedLog {
    /// How many calls in a hundred go wrong, and how: begin with ``none`` or ``many``, and change what you need.
    ///
    /// Thread safety: a value.
    public struct Faults: Sendable {
        /// Appends that never reach the log, and throw.
        public var lost = 0
        /// Calls that take effect, and throw all the same.
        public var unanswered = 0
        /// Appends that throw, and reach the log some calls later.
        public var late = 0
        /// Appends that reach the log a second time, some calls later: when the engine has forgotten their key.
        public var repeated = 0
        /// Calls that are answered after others that began later.
        public var delayed = 0
        /// Calls that begin an outage: until a number of calls have failed, nothing is done and readers are thrown out.
        public var outages = 0

        /// Nothing goes wrong, except what the test tells the log to do.
        public static var none: Faults { Faults() }

        /// About one call in three goes wrong.
        public static var many: Faults { Faults(lost: 5, unanswered: 5, late: 5, repeated: 5, delayed: 10, outages: 2) }
    }

    private struct Machine {
        var model: FluxTestLogModel<[UInt8]>
        var random: FluxTestRandom
        /// Entries that reach the log after a number of further calls.
        var late: [(calls: Int, entry: [UInt8], key: String?)] = []
        /// How many more calls fail.
        var outage = 0
        var isAvailable = true { didSet { if !isAvailable { downs += 1 } } }
        /// How often a test has taken the log down: readers from before are thrown out, even if it is back by now.
        var downs = 0
        var arePaused = false
        var readers: [FluxLatch] = []

        /// Throws while the log is down; each call that fails brings the end of an outage nearer.
        mutating func requireUp() throws(FluxSharedLogError) {
            if outage == 0 && isAvailable { return }
            outage = Swift.max(0, outage - 1)
            throw .unavailable("the log is down")
        }

        /// Adds the late entries whose calls have passed.
        mutating func bringLate() {
            for index in late.indices { late[index].calls -= 1 }
            for (_, entry, key) in late.filter({ $0.calls < 0 }) { _ = model.append(entry, key: key) }
            late.removeAll { $0.calls < 0 }
        }
    }

    private let faults: Faults
    private let machine: FluxLock<Machine>

    /// Creates a log without entries.
    ///
    /// - Parameters:
    ///   - seed: Determines what goes wrong, and when.
    ///   - faults: How much goes wrong.
    ///   - window: How many keys are known: those of the newest entries. An append with a known key returns its first
    ///     position.
    public init(seed: UInt64 = 0, faults: Faults = .none, window: Int = 100) {
        self.faults = faults
        machine = FluxLock(Machine(model: FluxTestLogModel(window: window), random: FluxTestRandom(seed: seed)))
    }

    // MARK: - Controlling the log

    /// The entries that are in the log now.
    public var entries: [FluxSharedEntry<[UInt8]>] { machine.withLock { $0.model.entries(after: $0.model.trimmed) } }

    /// Whether the log may answer; false fails all calls, and throws readers out (paused ones once they resume).
    public var isAvailable: Bool {
        get { machine.withLock { $0.isAvailable } }
        set { change { $0.isAvailable = newValue } }
    }

    /// Whether readers get nothing and do not notice it, as in a process that is stopped, or behind a slow network.
    public var arePaused: Bool {
        get { machine.withLock { $0.arePaused } }
        set { change { $0.arePaused = newValue } }
    }

    // MARK: - Using the log

    /// Adds an entry, unless something goes wrong.
    ///
    /// - Parameters:
    ///   - entry: The entry.
    ///   - key: Identifies the entry as long as it is among the newest.
    /// - Returns: The position of the entry.
    /// - Throws: `FluxSharedLogError.unavailable` if something goes wrong.
    public func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        try await call { machine, faults throws(FluxSharedLogError) in
            if machine.random.happens(faults.lost) { throw .unavailable("the request was lost") }
            let calls = machine.random.next(below: 20)
            if machine.random.happens(faults.late) {
                machine.late.append((calls, entry, key))
                throw .unavailable("the request is late")
            }
            if machine.random.happens(faults.repeated) { machine.late.append((calls, entry, nil)) }
            return machine.model.append(entry, key: key)
        }
    }

    /// Reads the entries after a position, and continues with new ones as they come.
    ///
    /// - Parameters:
    ///   - position: The last position that is known.
    ///   - receive: Receives the next entries: a random number of them if entries may be `lost`, calls `delayed`, or
    ///     `outages` occur.
    /// - Throws: `FluxSharedLogError`, or what `receive` throws.
    public func read(
        after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void
    ) async throws {
        var position = position
        let downs = machine.withLock { $0.downs }
        while !_Concurrency.Task.isCancelled {
            let latch = FluxLatch()
            let batch = try machine.withLock { machine in
                Swift.Result { try next(after: position, downs, latch, &machine) }
            }.get()
            if batch.isEmpty {
                await latch.wait()
                machine.withLock { $0.readers.removeAll { $0 === latch } }
            } else {
                try await receive(batch)
                position = batch.last!.position
            }
        }
    }

    /// Returns the position of the last entry.
    ///
    /// - Returns: The position.
    /// - Throws: `FluxSharedLogError.unavailable` if something goes wrong.
    public func end() async throws(FluxSharedLogError) -> UInt64 {
        try await call { machine, _ throws(FluxSharedLogError) in machine.model.end }
    }

    /// Returns the newest snapshot.
    ///
    /// - Returns: The snapshot; nil if none was saved.
    /// - Throws: `FluxSharedLogError.unavailable` if something goes wrong.
    public func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
        try await call { machine, _ throws(FluxSharedLogError) in machine.model.snapshot }
    }

    /// Saves a snapshot, unless there is one of the same or a later position.
    ///
    /// - Parameter snapshot: The snapshot.
    /// - Throws: `FluxSharedLogError.unavailable` if something goes wrong.
    public func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        try await call { machine, _ throws(FluxSharedLogError) in machine.model.save(snapshot) }
    }

    /// Removes the entries up to a position.
    ///
    /// - Parameter position: The position of the last entry to remove.
    /// - Throws: `FluxSharedLogError.unavailable` if something goes wrong.
    public func trim(through position: UInt64) async throws(FluxSharedLogError) {
        try await call { machine, _ throws(FluxSharedLogError) in machine.model.trim(through: position) }
    }

    // MARK: - Faults

    private func call<Answer: Sendable>(
        _ body: (inout Machine, Faults) throws(FluxSharedLogError) -> Answer
    ) async throws(FluxSharedLogError) -> Answer {
        let (answer, turns) = change { machine in
            machine.bringLate()
            let turns = machine.random.happens(faults.delayed) ? machine.random.next(below: 50) : 0
            if machine.outage == 0, machine.random.happens(faults.outages) {
                machine.outage = 1 + machine.random.next(below: 9)
            }
            let answer = Swift.Result { () throws(FluxSharedLogError) in
                try machine.requireUp()
                let answer = try body(&machine, faults)
                if machine.random.happens(faults.unanswered) { throw .unavailable("the answer was lost") }
                return answer
            }
            return (answer, turns)
        }
        for _ in 0..<turns { await _Concurrency.Task.yield() }
        return try answer.get()
    }

    private func next(
        after position: UInt64, _ downs: Int, _ latch: FluxLatch, _ machine: inout Machine
    ) throws -> [FluxSharedEntry<[UInt8]>] {
        if machine.arePaused {
            machine.readers.append(latch)
            return []
        }
        try machine.requireUp()
        if downs != machine.downs { throw FluxSharedLogError.unavailable("the log was down") }
        if position < machine.model.trimmed { throw FluxSharedLogError.trimmed(through: machine.model.trimmed) }
        let entries = machine.model.entries(after: position)
        if entries.isEmpty { machine.readers.append(latch) }
        let isWhole = faults.lost + faults.delayed + faults.outages == 0 || entries.isEmpty
        return isWhole ? entries : Array(entries.prefix(1 + machine.random.next(below: entries.count)))
    }

    /// Changes the log, and wakes its readers.
    private func change<Result>(_ body: (inout Machine) -> Result) -> Result {
        let (result, readers) = machine.withLock { machine in
            (body(&machine), Swift.exchange(&machine.readers, with: []))
        }
        for reader in readers { reader.open() }
        return result
    }
}
