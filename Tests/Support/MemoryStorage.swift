import FluxCore
import FluxPersistence

/// Decides which calls of a storage in memory fail or wait, and records all calls and those that overlap.
public final class StorageScript: Sendable {
    /// The error of a call that is meant to fail.
    public struct Refusal: Error, Equatable {
        var number: Int

        /// Creates a refusal.
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
    /// The name of every call, recorded when it begins.
    public let calls = Recorder<String>()

    /// How many calls began before another had ended.
    public var overlaps: Int { state.withLock { $0.overlaps } }

    /// Makes the next calls fail.
    public func refuse(_ count: Int) { state.withLock { $0.refusals = count } }
    /// Makes the next calls do their work, and then report a failure.
    public func refuseAfterwards(_ count: Int) { state.withLock { $0.lateRefusals = count } }
    /// Makes all calls wait for a gate from now on; nil lets them proceed.
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
    /// Controls its calls.
    public let script = StorageScript()
    /// The states it was given to save, in order.
    public let saved = Recorder<State>()
    private let stored: Locked<State?>

    /// Creates a persistence that has a saved state, or none.
    public init(_ stored: State? = nil) {
        self.stored = Locked(stored)
    }

    /// The last saved state.
    public var current: State? { stored.current }

    /// Returns the last saved state, unless the script makes the call fail.
    public func load() async throws -> State? {
        try await script.perform("load") { stored.current }
    }

    /// Keeps a state, unless the script makes the call fail.
    public func save(_ state: State) async throws {
        try await script.perform("save") {
            stored.withLock { $0 = state }
            saved.record(state)
        }
    }
}

/// A log in memory that accepts whatever a real one would, so a wrong number shows at the next load.
public final class MemoryLog<State: FluxState>: FluxLog {
    private struct Disk {
        var snapshot: FluxSnapshot<State>?
        var entries: [UInt64: State.Action] = [:]
    }

    /// Controls its calls.
    public let script = StorageScript()
    /// The number of actions in each append.
    public let batches = Recorder<Int>()
    /// The numbers of all appended actions, in order.
    public let numbers = Recorder<UInt64>()
    /// Each number, recorded when an append or a snapshot first covers it.
    public let covered = Recorder<UInt64>()
    private let disk = Locked(Disk())

    /// Creates an empty log.
    public init() {}

    /// The contents that a load would return.
    public var contents: FluxLogContents<State> {
        disk.withLock { disk in
            let entries = disk.entries.sorted { $0.key < $1.key }
            return FluxLogContents(
                snapshot: disk.snapshot, entries: entries.map { FluxLogEntry(number: $0.key, action: $0.value) })
        }
    }

    /// Returns the contents, unless the script makes the call fail.
    public func load() async throws -> FluxLogContents<State> {
        try await script.perform("load") { contents }
    }

    /// Adds actions, unless the script makes the call fail.
    public func append(_ entries: [FluxLogEntry<State.Action>]) async throws {
        try await script.perform("append") {
            disk.withLock { disk in for entry in entries { disk.entries[entry.number] = entry.action } }
            batches.record(entries.count)
            for entry in entries { numbers.record(entry.number) }
            cover(entries.last?.number ?? 0)
        }
    }

    /// Replaces the actions that a snapshot covers with the snapshot, unless the script makes the call fail.
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

    /// Loses the action with a number, as no disk should.
    public func lose(_ number: UInt64) {
        disk.withLock { $0.entries[number] = nil }
    }
}
