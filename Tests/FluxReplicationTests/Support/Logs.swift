import FluxCore
import FluxReplication
import FluxTesting

/// A log that wraps another one and by default changes nothing.
protocol WrappedLog: FluxSharedLog<[UInt8]> {
    var base: FluxTestLog { get }
}

extension WrappedLog {
    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        try await base.append(entry, key: key)
    }

    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        try await base.read(after: position, receive)
    }

    func end() async throws(FluxSharedLogError) -> UInt64 { try await base.end() }
    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? { try await base.snapshot() }
    func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        try await base.save(snapshot)
    }
    func trim(through position: UInt64) async throws(FluxSharedLogError) { try await base.trim(through: position) }
}

/// Hands over another snapshot than was saved, and may append and fail.
struct SnapshotLog: WrappedLog {
    let base: FluxTestLog
    var appended: FluxSharedLogError?
    let instead: @Sendable (FluxSharedSnapshot<[UInt8]>) -> FluxSharedSnapshot<[UInt8]>
    var before: @Sendable () throws(FluxSharedLogError) -> Void = {}

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        let position = try await base.append(entry, key: key)
        if let appended { throw appended }
        return position
    }

    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
        try before()
        return try await base.snapshot().map(instead)
    }
}

/// Refuses every entry.
struct RefusingLog: WrappedLog {
    let base = FluxTestLog()

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        throw .refused("too large")
    }
}

/// Adds each entry twice.
struct DoublingLog: WrappedLog {
    let base = FluxTestLog()

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        let position = try await base.append(entry, key: key)
        _ = try await base.append(entry, key: key + ", again")
        return position
    }
}

/// Accepts this many keys at once, and all others only the second time.
final class StutteringLog: WrappedLog {
    let base = FluxTestLog()
    private let takenAtOnce: Int
    private let keys = FluxLock(Set<String>())

    init(takenAtOnce: Int) { self.takenAtOnce = takenAtOnce }

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        let isLate = keys.withLock { keys in keys.insert(key).inserted && keys.count > takenAtOnce }
        if isLate { throw .unavailable("no leader") }
        return try await base.append(entry, key: key)
    }
}

/// Holds back what is appended while it is late.
final class LateLog: WrappedLog {
    let base = FluxTestLog()
    let isLate = FluxLock(true)
    let late = FluxLock<[(entry: [UInt8], key: String)]>([])

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        guard isLate.withLock({ $0 }) else { return try await base.append(entry, key: key) }
        late.withLock { $0.append((entry, key)) }
        // Waits until the task is cancelled.
        await FluxLatch().wait()
        throw .unavailable("cancelled")
    }

    /// Appends everything that was held back.
    func bring() async throws {
        for (entry, key) in late.withLock({ $0 }) { _ = try await base.append(entry, key: key) }
    }
}

/// Never completes an append; it fails some turns after its task is cancelled.
final class LingeringLog: WrappedLog {
    let base = FluxTestLog()
    let underWay = FluxLock(0)

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        underWay.withLock { $0 += 1 }
        await FluxLatch().wait()
        for _ in 0..<1_000 { await Task.yield() }
        underWay.withLock { $0 -= 1 }
        throw .unavailable("cancelled")
    }
}

/// Counts its calls, records the trims, and accepts entries or not.
final class CountingLog: WrappedLog {
    let base = FluxTestLog()
    let takesEntries = FluxLock(true)
    let appends = FluxLock(0)
    let ends = FluxLock(0)
    let reads = FluxLock(0)
    let trims = FluxLock<[UInt64]>([])

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        appends.withLock { $0 += 1 }
        if !takesEntries.withLock({ $0 }) { throw .unavailable("disk full") }
        return try await base.append(entry, key: key)
    }

    func end() async throws(FluxSharedLogError) -> UInt64 {
        ends.withLock { $0 += 1 }
        return try await base.end()
    }

    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        reads.withLock { $0 += 1 }
        try await base.read(after: position, receive)
    }

    func trim(through position: UInt64) async throws(FluxSharedLogError) {
        trims.withLock { $0.append(position) }
        try await base.trim(through: position)
    }
}

/// Delivers the entries that exist, and then stops reading without an error.
struct EndingLog: WrappedLog {
    let base = FluxTestLog()

    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        let entries = base.entries.filter { $0.position > position }
        if !entries.isEmpty { try await receive(entries) }
    }
}

/// While late, reports new entries as trimmed, and returns its snapshot only once the caller's task is cancelled.
final class LateSnapshotLog: WrappedLog {
    let base = FluxTestLog()
    let isLate = FluxLock(false)
    let isAsked = FluxLatch()

    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        try await base.read(after: position) { entries in
            if isLate.withLock({ $0 }) { throw FluxSharedLogError.trimmed(through: entries.last!.position) }
            try await receive(entries)
        }
    }

    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
        if isLate.withLock({ $0 }) {
            isAsked.open()
            await FluxLatch().wait()
        }
        return try await base.snapshot()
    }
}

/// Saves at once, but returns only when it may.
final class HangingLog: WrappedLog {
    let base = FluxTestLog()
    let mayReturn = FluxLatch()

    func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        try await base.save(snapshot)
        await mayReturn.wait()
    }
}

/// Saves after some turns, unless its task is cancelled meanwhile.
final class BriefLog: WrappedLog {
    let base = FluxTestLog()

    func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        for _ in 0..<100 { await Task.yield() }
        if Task.isCancelled { throw .unavailable("cancelled") }
        try await base.save(snapshot)
    }
}

/// Allows or refuses reading, and allows or refuses saving and trimming.
final class GatedLog: WrappedLog {
    let base = FluxTestLog()
    let isCut = FluxLock(false)
    let isFull = FluxLock(false)
    /// Whether it saves even when it is full.
    let saves = FluxLock(false)

    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        try cut()
        try await base.read(after: position) { entries in
            try cut()
            try await receive(entries)
        }
    }

    func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        if isFull.withLock({ $0 }) && !saves.withLock({ $0 }) { throw .unavailable("no disk") }
        try await base.save(snapshot)
    }

    func trim(through position: UInt64) async throws(FluxSharedLogError) {
        if isFull.withLock({ $0 }) { throw .unavailable("no disk") }
        try await base.trim(through: position)
    }

    private func cut() throws {
        if isCut.withLock({ $0 }) { throw FluxSharedLogError.unavailable("cut off") }
    }
}

/// Ends each reading with an error that is described by code of the user.
struct BreakingLog: WrappedLog {
    struct Broken: Error, CustomStringConvertible {
        let reason: @Sendable () -> String
        var description: String { reason() }
    }

    let base = FluxTestLog()
    let reason: @Sendable () -> String

    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        throw Broken(reason: reason)
    }
}
