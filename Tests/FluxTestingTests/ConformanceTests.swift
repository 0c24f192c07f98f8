import FluxCore
import FluxPersistence
import FluxTesting
import TestSupport
import Testing

/// The checks that users run on their own types: they pass correct ones, and find what is wrong with others.
@Suite struct ConformanceTests {
    static let actions: [Counter.Action] = [.add(1), .addSilently(10), .mark(producer: 1, number: 1), .add(-3)]

    @Test func `A correct persistence and a correct log pass`() async throws {
        for states in [[1, 2, 3], [1, 1, 2]] {
            let persistence = MemoryPersistence<Int>()
            try await FluxConformance.check(states: states) { persistence }
        }
        for isSnapshotFirst in [true, false] {
            let log = MemoryLog<Marks>()
            try await FluxConformance.check(
                initialState: Marks(), actions: Self.actions, beginningWithSnapshot: isSnapshotFirst
            ) { log }
        }
    }

    @MainActor @Test func `A test on the main actor can check storage that it created there`() async throws {
        let (persistence, log) = (MemoryPersistence<Int>(), MemoryLog<Marks>())
        func isolated<Storage>(_ storage: Storage) -> Storage { storage }
        try await FluxConformance.check(states: [1, 2]) { isolated(persistence) }
        try await FluxConformance.check(initialState: Marks(), actions: Self.actions) { isolated(log) }
    }

    @Test(arguments: WrongLog.Fault.allCases) func `Each fault of a log is found`(fault: WrongLog.Fault) async {
        await #expect(throws: FluxConformance.Failure.self) {
            for isSnapshotFirst in [true, false] {
                let log = WrongLog(fault)
                try await FluxConformance.check(
                    initialState: Marks(), actions: Self.actions, beginningWithSnapshot: isSnapshotFirst
                ) { log.reopened() }
            }
        }
    }

    @Test(arguments: WrongPersistence.Fault.allCases)
    func `Each fault of a persistence is found`(fault: WrongPersistence.Fault) async {
        let persistence = WrongPersistence(fault)
        await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.check(states: fault == .savesOnceLoaded ? [1, 2, 1] : [1, 2, 3]) {
                persistence.reopened()
            }
        }
    }

    @Test func `A log that uses the number of a snapshot as its revision is found, whatever the actions`() async {
        let log = WrongLog(.numberForRevision)
        let failure = await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.check(initialState: Marks(), actions: (1...4).map { .add($0) }) { log.reopened() }
        }
        #expect(failure?.description.hasPrefix("the snapshot's revision") == true, "\(failure?.description ?? "")")
    }

    /// Cuts off states that are too long.
    private final class Cutting: FluxPersistence {
        private let disk = Locked<String?>(nil)
        func load() async throws -> String? { disk.current }
        func save(_ state: String) async throws { disk.withLock { $0 = String(state.prefix(2_000)) } }
    }

    @Test func `The failure shows where long states differ`() async {
        let disk = Cutting()
        let failure = await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.check(states: [String(repeating: "a", count: 2_000) + "the end", "b"]) { disk }
        }
        let text = failure?.description ?? ""
        #expect(
            text.count < 1_000 && text.contains("aaa\")…, but should be …") && text.contains("athe end\")"), "\(text)")
    }

    @Test func `A check with too little input fails`() async {
        await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.check(states: [1, 1]) { MemoryPersistence<Int>() }
        }
        await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.check(initialState: Marks(), actions: [.add(1)]) { MemoryLog<Marks>() }
        }
    }

    /// A state that can be compared.
    struct Marks: FluxState, Equatable {
        var counter: [Int] = []
        mutating func handle(action: Counter.Action) -> Marks? {
            switch action {
            case .add(let amount): counter.append(amount)
            case .addSilently(let amount):
                counter.append(amount)
                return nil
            case .mark(_, let number): counter.append(number * 1_000)
            }
            // Long enough to tell orders apart, and no longer.
            if counter.count > 8 { counter.removeFirst() }
            return self
        }
    }

    /// A log with one thing wrong.
    final class WrongLog: FluxLog {
        enum Fault: CaseIterable {
            case forgetsWhenReopened, forgetsLast, repeats, reorders, keepsOldSnapshot, dropsAll, losesRevision,
                neverLoads, numberForRevision, clearsForNothing, compactsNoActions, shortRevision, takesAway,
                repeatsAllKnown, knowsSnapshotOnly, newKeepsNoSnapshot, losesFirstBehindSnapshot, pages, needsSnapshot
        }

        let fault: Fault
        private let disk = Locked(FluxLogContents<Marks>())
        /// Whether the first actions appended to a bare snapshot are lost when the log is reopened.
        private let isDoomed = Locked(false)
        /// Whether loaded content is in memory only, until something is written; nil before either.
        private let isTaken = Locked<Bool?>(nil)
        /// Whether nothing was appended since the last snapshot.
        private let isCompacted = Locked(false)

        init(_ fault: Fault) { self.fault = fault }

        func reopened() -> WrongLog {
            if fault == .forgetsWhenReopened { disk.withLock { $0 = FluxLogContents(snapshot: $0.snapshot) } }
            if fault == .takesAway && isTaken.current == true { disk.withLock { $0 = FluxLogContents() } }
            if fault == .losesFirstBehindSnapshot && isDoomed.current {
                disk.withLock { $0 = FluxLogContents(snapshot: $0.snapshot) }
            }
            isDoomed.withLock { $0 = false }
            isTaken.withLock { $0 = nil }
            return self
        }

        func load() async throws -> FluxLogContents<Marks> {
            isTaken.withLock { $0 = $0 ?? true }
            if fault == .needsSnapshot && disk.current.snapshot == nil { return FluxLogContents() }
            if fault == .pages {
                return FluxLogContents(
                    snapshot: disk.current.snapshot, entries: Array(disk.current.entries.prefix(8_192)))
            }
            return fault == .neverLoads ? FluxLogContents() : disk.current
        }

        func append(_ entries: [FluxLogEntry<Counter.Action>]) async throws {
            let isFresh = isTaken.withLock { Swift.exchange(&$0, with: false) != false }
            disk.withLock { disk in
                var all = disk.entries
                if isFresh && all.isEmpty && disk.snapshot != nil { isDoomed.withLock { $0 = true } }
                let isFirst = isCompacted.withLock { Swift.exchange(&$0, with: false) }
                let last = max(
                    isFirst && fault == .knowsSnapshotOnly ? 0 : all.last?.number ?? 0, disk.snapshot?.number ?? 0)
                if fault == .clearsForNothing && entries.isEmpty { all = [] }
                let isKnown = entries.allSatisfy { $0.number <= last }
                let repeats = fault == .repeats || fault == .repeatsAllKnown && isKnown
                all += repeats ? entries : entries.filter { $0.number > last }
                if fault == .forgetsLast && entries.count > 1 { all.removeLast() }
                if fault == .reorders && all.count > 1 { all.swapAt(0, 1) }
                disk = FluxLogContents(snapshot: disk.snapshot, entries: all)
            }
        }

        func compact(_ snapshot: FluxSnapshot<Marks>) async throws {
            isTaken.withLock { $0 = false }
            isCompacted.withLock { $0 = true }
            isDoomed.withLock { $0 = false }
            disk.withLock { disk in
                if fault == .newKeepsNoSnapshot && disk.snapshot == nil && disk.entries.isEmpty { return }
                if fault == .compactsNoActions && disk.entries.isEmpty { return }
                let entries = fault == .dropsAll ? [] : disk.entries.filter { $0.number > snapshot.number }
                let revision: UInt64 =
                    switch fault {
                    case .losesRevision: 0
                    case .numberForRevision: snapshot.number
                    case .shortRevision: UInt64(UInt32(truncatingIfNeeded: snapshot.revision))
                    default: snapshot.revision
                    }
                disk = FluxLogContents(
                    snapshot: fault == .keepsOldSnapshot
                        ? disk.snapshot ?? snapshot
                        : FluxSnapshot(state: snapshot.state, number: snapshot.number, revision: revision),
                    entries: entries)
            }
        }
    }

    /// A persistence with one thing wrong.
    final class WrongPersistence: FluxPersistence {
        enum Fault: CaseIterable {
            case forgetsWhenReopened, keepsFirst, startsWithSomething, forgetsEqual, savesOnceLoaded, moves,
                savesNothingLoaded, takesAway
        }

        let fault: Fault
        private let disk: Locked<Int?>
        private let opened = Locked(0)
        private let isLoaded = Locked(false)
        private let isSaved = Locked(false)
        private let firstLoaded = Locked<Int?>(nil)

        init(_ fault: Fault) {
            self.fault = fault
            disk = Locked(fault == .startsWithSomething ? 0 : nil)
        }

        var place: String? { fault == .moves ? "\(opened.current)" : "here" }

        func reopened() -> WrongPersistence {
            opened.withLock { $0 += 1 }
            let isTaken = fault == .takesAway && isLoaded.current && !isSaved.current
            if fault == .forgetsWhenReopened || isTaken { disk.withLock { $0 = nil } }
            isSaved.withLock { $0 = false }
            isLoaded.withLock { $0 = false }
            firstLoaded.withLock { $0 = nil }
            return self
        }

        func load() async throws -> Int? {
            isLoaded.withLock { $0 = true }
            firstLoaded.withLock { $0 = $0 ?? disk.current }
            return disk.current
        }

        func save(_ state: Int) async throws {
            if fault == .savesOnceLoaded && !isLoaded.current { return }
            isSaved.withLock { $0 = true }
            if fault == .savesNothingLoaded && state == firstLoaded.current { return }
            disk.withLock { disk in
                if fault == .forgetsEqual && disk == state { return disk = nil }
                disk = fault == .keepsFirst ? disk ?? state : state
            }
        }
    }
}
