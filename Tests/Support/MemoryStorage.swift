import FluxCore
import FluxPersistence

/// What a storage in memory does at a call, and who is told; it also sees calls that overlap.
public final class StorageScript: Sendable {
    /// What a call that is to fail throws.
    public struct Refusal: Error, Equatable {
        var number: Int

        /// Makes one.
        public init(number: Int = 0) { self.number = number }
    }

    private struct State {
        var refusals = 0
        var lateRefusals = 0
        var gate: Gate?
        var isBusy = false
        var overlaps = 0
    }

    private let state = Locked(State())
    /// Every call, by name, when it begins.
    public let calls = Recorder<String>()

    /// How many calls began before another was over.
    public var overlaps: Int { state.withLock { $0.overlaps } }

    /// Has the next calls fail.
    public func refuse(_ count: Int) { state.withLock { $0.refusals = count } }
    /// Has the next calls do their work, and say that they failed.
    public func refuseAfterwards(_ count: Int) { state.withLock { $0.lateRefusals = count } }
    /// Has all calls wait for a gate from now on.
    public func block(until gate: Gate?) { state.withLock { $0.gate = gate } }

    func perform<Value>(_ name: String, _ body: () -> Value) async throws -> Value {
        let gate = state.withLock { state in
            if state.isBusy { state.overlaps += 1 }
            state.isBusy = true
            return state.gate
        }
        calls.record(name)
        await gate?.opened()
        let (refuses, refusesLate) = state.withLock { state in
            state.isBusy = false
            let (refuses, refusesLate) = (state.refusals > 0, state.lateRefusals > 0)
            if refuses { state.refusals -= 1 } else if refusesLate { state.lateRefusals -= 1 }
            return (refuses, refusesLate)
        }
        if refuses { throw Refusal() }
        let value = body()
        if refusesLate { throw Refusal(number: 1) }
        return value
    }
}

/// A persistence that keeps its state in memory.
public final class MemoryPersistence<State: Sendable>: FluxPersistence {
    /// What its calls do.
    public let script = StorageScript()
    /// What it was given to save, in order.
    public let saved = Recorder<State>()
    private let stored: Locked<State?>

    /// A persistence with a saved state, or none.
    public init(_ stored: State? = nil) {
        self.stored = Locked(stored)
    }

    /// The state that was saved last.
    public var current: State? { stored.current }

    /// What was saved last, as the script allows.
    public func load() async throws -> State? {
        try await script.perform("load") { stored.current }
    }

    /// Keeps a state, as the script allows.
    public func save(_ state: State) async throws {
        try await script.perform("save") {
            stored.withLock { $0 = state }
            saved.record(state)
        }
    }
}

/// A log in memory; it takes what a real one would, so that a wrong number shows at the next load.
public final class MemoryLog<State: FluxState>: FluxLog {
    private struct Disk {
        var snapshot: FluxSnapshot<State>?
        var entries: [UInt64: State.Action] = [:]
    }

    /// What its calls do.
    public let script = StorageScript()
    /// How many actions each append had.
    public let batches = Recorder<Int>()
    /// The numbers of all appended actions, in order.
    public let numbers = Recorder<UInt64>()
    /// The numbers that the first write of each covered, a snapshot's too.
    public let covered = Recorder<UInt64>()
    private let disk = Locked(Disk())

    /// An empty log.
    public init() {}

    /// What a load would find.
    public var contents: FluxLogContents<State> {
        disk.withLock { disk in
            let entries = disk.entries.sorted { $0.key < $1.key }
            return FluxLogContents(
                snapshot: disk.snapshot, entries: entries.map { FluxLogEntry(number: $0.key, action: $0.value) })
        }
    }

    /// What is in the log, as the script allows.
    public func load() async throws -> FluxLogContents<State> {
        try await script.perform("load") { contents }
    }

    /// Adds actions, as the script allows.
    public func append(_ entries: [FluxLogEntry<State.Action>]) async throws {
        try await script.perform("append") {
            disk.withLock { disk in for entry in entries { disk.entries[entry.number] = entry.action } }
            batches.record(entries.count)
            for entry in entries { numbers.record(entry.number) }
            cover(entries.last?.number ?? 0)
        }
    }

    /// Puts a snapshot in the place of what it covers, as the script allows.
    public func compact(_ snapshot: FluxSnapshot<State>) async throws {
        try await script.perform("compact") {
            disk.withLock { disk in
                disk.snapshot = snapshot
                disk.entries = disk.entries.filter { $0.key > snapshot.number }
            }
            cover(snapshot.number)
        }
    }

    private func cover(_ number: UInt64) {
        let last = covered.values.last ?? 0
        if last < number { for number in last + 1...number { covered.record(number) } }
    }

    /// Loses what a disk would not.
    public func lose(_ number: UInt64) {
        disk.withLock { $0.entries[number] = nil }
    }
}
