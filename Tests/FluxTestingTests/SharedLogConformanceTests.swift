import FluxCore
import FluxReplication
import FluxTesting
import Testing

/// The checks of a shared log pass correct logs, and find what is wrong with others.
@Suite(.timeLimit(.minutes(2))) struct SharedLogConformanceTests {
    @Test("A correct log passes, whether it remembers keys for long or not at all", arguments: [0, 1, 1_000])
    func right(window: Int) async throws {
        let log = FluxTestLog(window: window)
        try await FluxConformance.sharedLog { log }
    }

    @Test("A log may report as trimmed all positions before the first entry that is left")
    func gaps() async throws {
        let log = FluxTestLog()
        try await FluxConformance.sharedLog { Sparse(log: log) }
    }

    @MainActor @Test("A test on the main actor can check a log")
    func onTheMainActor() async throws {
        let log = FluxTestLog()
        try await FluxConformance.sharedLog { log }
    }

    @Test("A cancelled read may also throw that the log is unavailable")
    func unavailable() async throws {
        let log = WrongSharedLog(nil)
        try await FluxConformance.sharedLog { log }
    }

    @Test("A check accepts the longest duration as its time limit")
    func forGood() async throws {
        let log = FluxTestLog()
        try await FluxConformance.sharedLog(within: .seconds(Int64.max)) { log }
    }

    @Test("A check whose task is cancelled ends, whatever time is left")
    func cancelled() async {
        let log = FluxTestLog()
        log.arePaused = true
        let checking = Task { try await FluxConformance.sharedLog(within: .seconds(Int64.max)) { log } }
        while log.entries.isEmpty { await Task.yield() }
        checking.cancel()
        await #expect(throws: CancellationError.self) { try await checking.value }
    }

    @Test("Each fault of a log is found", arguments: WrongSharedLog.Fault.allCases)
    func wrong(fault: WrongSharedLog.Fault) async {
        let log = WrongSharedLog(fault)
        await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.sharedLog(within: .milliseconds(300)) { WrongSharedLog(fault, on: log) }
        }
    }

    @Test("A read that ends too early fails the check at once, with its reason")
    func endsReading() async {
        let log = WrongSharedLog(.endsReading)
        let failure = await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.sharedLog { log }
        }
        let reason = #""the log is not available: there is no leader""#
        let text = "the entries since the log was empty did not come: the reading ended with \(reason)"
        #expect(failure?.description == text)
    }

    @Test("A failure about many bytes is one readable line")
    func tellsShortly() async {
        let log = WrongSharedLog(.shortBytes)
        let failure = await #expect(throws: FluxConformance.Failure.self) {
            try await FluxConformance.sharedLog { log }
        }
        let text = failure?.description ?? ""
        #expect(
            text.hasPrefix("the number of bytes at ") && text.hasSuffix(" is 65000, but should be 100000"), "\(text)")
    }

    /// A log whose positions are those of another, doubled.
    struct Sparse: FluxSharedLog {
        let log: FluxTestLog

        func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
            try await log.append(entry, key: key) * 2
        }

        func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
            do {
                try await log.read(after: position / 2) { entries in
                    try await receive(entries.map { FluxSharedEntry(position: $0.position * 2, entry: $0.entry) })
                }
            } catch FluxSharedLogError.trimmed(let through) {
                throw FluxSharedLogError.trimmed(through: log.entries.first.map { $0.position * 2 - 1 } ?? through * 2)
            }
        }

        func end() async throws(FluxSharedLogError) -> UInt64 { try await log.end() * 2 }

        func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
            try await log.snapshot().map { FluxSharedSnapshot(position: $0.position * 2, state: $0.state) }
        }

        func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
            try await log.save(FluxSharedSnapshot(position: snapshot.position / 2, state: snapshot.state))
        }

        func trim(through position: UInt64) async throws(FluxSharedLogError) {
            try await log.trim(through: position / 2)
        }
    }

    /// A log with one thing wrong, or none; a reading that is cancelled throws.
    final class WrongSharedLog: FluxSharedLog {
        enum Fault: CaseIterable {
            case oldEnd, swapped, missing, repeated, notLive, onlyOldOnes, samePosition, startsOver, cancelledThrows,
                swallowsErrors, endsReading
            case olderSnapshot, sameSnapshot, noSnapshot, silentTrim, trimsMore, forgetsEnd
            case lowersTrim, reportsTooMuch, trimsSnapshot, shortKeys, contentForKey, firstTwice, emptyBatch
            case savesByOwn, forgetsEndAtFirst, refusesCancelled, shortBytes, overtaken, firstPage, savesLate
            case silentIfEmpty, knowsNoOldEntries, knowsNoOldSnapshot, knowsNoOldTrim
            case emptyMissesFirst, emptyEnds, emptyIsTrimmed, snapshotInTwo, overtakenTooFar, overtakenByNothing
        }

        /// What all clients share.
        private final class Server: Sendable {
            let base = FluxTestLog()
            let trimmed = FluxLock<UInt64>(0)
            let newest = FluxLock<FluxSharedSnapshot<[UInt8]>?>(nil)
        }

        private let server: Server
        private let fault: Fault?
        /// What this client has saved, and the end that it has seen.
        private let own = FluxLock<(saved: UInt64, end: UInt64)>((0, 0))

        /// The end, the position of the snapshot, and what was trimmed when this client was opened.
        private let old: (end: UInt64, saved: UInt64?, trimmed: UInt64)

        private var base: FluxTestLog { server.base }

        init(_ fault: Fault?, on other: WrongSharedLog? = nil) {
            (self.fault, server) = (fault, other?.server ?? Server())
            old = (
                server.base.entries.last?.position ?? 0, server.newest.withLock { $0?.position },
                server.trimmed.withLock { $0 }
            )
        }

        func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
            if fault == .refusesCancelled && Task.isCancelled { throw .refused("cancelled") }
            let entry = fault == .shortBytes ? Array(entry.prefix(65_000)) : entry
            let key = fault == .contentForKey ? "\(entry)" : fault == .shortKeys ? String(key.prefix(8)) : key
            let position = try await base.append(entry, key: key)
            return fault == .samePosition ? 1 : position
        }

        func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
            if fault == .endsReading { throw FluxSharedLogError.unavailable("there is no leader") }
            if fault == .emptyBatch { try await receive([]) }
            let isNew = position == 0 && base.entries.isEmpty
            if fault == .emptyEnds && isNew { return }
            if fault == .emptyIsTrimmed && isNew { throw FluxSharedLogError.trimmed(through: 0) }
            var isFirst = true
            do {
                let start = fault == .knowsNoOldEntries ? max(position, old.end) : position
                try await base.read(after: fault == .startsOver ? 0 : start) { entries in
                    if isFirst, fault == .firstTwice { try await receive(entries) }
                    if isFirst, isNew, fault == .emptyMissesFirst { return isFirst = false }
                    isFirst = false
                    try await hand(entries, receive)
                }
            } catch FluxSharedLogError.trimmed(let through) where isSilent(position) || fault == .overtaken && !isFirst
            {
                try await base.read(after: through, receive)
            } catch FluxSharedLogError.trimmed where fault == .overtakenByNothing && !isFirst {
                throw FluxSharedLogError.trimmed(through: 0)
            } catch FluxSharedLogError.trimmed(let through)
                where fault == .reportsTooMuch || fault == .overtakenTooFar && !isFirst
            {
                throw FluxSharedLogError.trimmed(through: base.entries.first?.position ?? through + 1)
            } catch  where fault == .swallowsErrors {}
            if fault == nil { throw FluxSharedLogError.unavailable("the task was cancelled") }
            if fault == .cancelledThrows { throw CancellationError() }
        }

        /// Whether readers are not told that the entries after a position are gone.
        private func isSilent(_ position: UInt64) -> Bool {
            switch fault {
            case .silentTrim: true
            case .silentIfEmpty: base.entries.isEmpty
            case .knowsNoOldTrim: position < old.trimmed
            case .lowersTrim: position >= server.trimmed.withLock { $0 }
            default: false
            }
        }

        private func hand(
            _ entries: [FluxSharedEntry<[UInt8]>], _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void
        ) async throws {
            switch fault {
            case .swapped: for entry in entries.reversed() { try await receive([entry]) }
            case .missing: for entry in entries where entry.position % 5 != 0 { try await receive([entry]) }
            case .repeated: for entry in entries + entries { try await receive([entry]) }
            case .notLive where entries.count < 3: break
            case .onlyOldOnes where entries.contains { $0.entry.count == 3 }: break
            case .firstPage: try await receive(Array(entries.prefix(500)))
            default: try await receive(entries)
            }
        }

        func end() async throws(FluxSharedLogError) -> UInt64 {
            switch fault {
            case .oldEnd: base.entries.dropLast().last?.position ?? 0
            case .forgetsEnd: base.entries.last?.position ?? 0
            case .forgetsEndAtFirst:
                own.withLock { own in
                    own.end = max(own.end, base.entries.last?.position ?? 0)
                    return own.end
                }
            default: try await base.end()
            }
        }

        func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
            let newest = server.newest.withLock { $0 }
            if fault == .snapshotInTwo, let newest {
                for _ in 0..<100 { await Task.yield() }
                let rest = server.newest.withLock { $0 }?.state.dropFirst(newest.state.count / 2) ?? []
                return FluxSharedSnapshot(
                    position: newest.position, state: Array(newest.state.prefix(newest.state.count / 2)) + rest)
            }
            return fault == .knowsNoOldSnapshot && newest?.position == old.saved ? nil : newest
        }

        func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
            if fault == .savesLate {
                // Checks at once and writes later, the older snapshots last.
                if snapshot.position <= server.newest.withLock({ $0?.position ?? 0 }) { return }
                for _ in 0..<max(1, 40 * (30 - Int(snapshot.position))) { await Task.yield() }
                return server.newest.withLock { $0 = snapshot }
            }
            server.newest.withLock { newest in
                switch fault {
                case .noSnapshot: break
                case .olderSnapshot: newest = snapshot
                case .savesByOwn:
                    own.withLock { own in
                        if snapshot.position > own.saved { (own.saved, newest) = (snapshot.position, snapshot) }
                    }
                case .sameSnapshot where snapshot.position >= newest?.position ?? 0: newest = snapshot
                default: if snapshot.position > newest?.position ?? 0 { newest = snapshot }
                }
            }
        }

        func trim(through position: UInt64) async throws(FluxSharedLogError) {
            let position = fault == .trimsMore ? position + 3 : position
            server.trimmed.withLock { $0 = position }
            if fault == .trimsSnapshot { server.newest.withLock { $0 = nil } }
            try await base.trim(through: position)
        }
    }
}
