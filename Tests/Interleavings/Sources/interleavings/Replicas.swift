import Explorer
import Flux

/// Replicas, one step after the other: what a random run does not lead to.
enum Replicas {
    static let scenarios = [
        Scenario("replica-given-up", "An unconfirmed action comes before later ones of its replica or never") { scene in
            let log = HoldingLog(holding: [1, 2])
            let last = Noted<[Int]>([])
            scene.task("dispatches") {
                let replica = try! await join(log)
                let (first, second) = (Noted(false), FluxLatch())
                let cancelFirst = scene.task("waits for long") {
                    _ = try? await replica.dispatch(action: .add(1))
                    first.value = true
                }
                await log.hasHeld(1)
                let cancel = scene.task("gives up") {
                    _ = try? await replica.dispatch(action: .add(2))
                    second.open()
                }
                await log.hasHeld(2)
                cancel()
                await second.wait()
                _ = try! await replica.dispatch(action: .add(3))
                await log.bring(2)
                try! await replica.upToDate()
                last.value = replica.store.entries
                cancelFirst()
                await replica.close()
            }
            scene.finally { scene.expect(last.value, is: [3], "what came after its successor") }
        },
        Scenario("replica-check", "An entry after one that is due for a checksum carries it") { scene in
            let log = HoldingLog(holding: [])
            scene.task("dispatches") {
                let replica = try! await join(log, checks: 1)
                _ = try! await replica.dispatch(action: .add(1))
                _ = try! await replica.dispatch(action: .add(2))
                await replica.close()
            }
            scene.finally { scene.expect(log.base.entries.map { $0.entry[1] & 1 }, is: [0, 1], "checksums") }
        },
        Scenario("replica-times", "Each dispatch ends when its time is up") { scene in
            let log = HoldingLog(holding: [1, 2])
            scene.task("dispatches") {
                guard let replica = try? await join(log, clock: ScenarioClock()) else { return }
                let done = FluxLatch()
                scene.task("longer") {
                    _ = try? await replica.dispatch(action: .add(1), within: .seconds(2))
                    done.open()
                }
                _ = try? await replica.dispatch(action: .add(2), within: .seconds(1))
                await done.wait()
                await replica.close()
            }
        },
        Scenario("replica-earlier", "A dispatch with less time does not wait for one with more") { scene in
            let log = HoldingLog(holding: [1, 2])
            scene.task("dispatches") {
                let replica = try! await join(log, clock: OneSecond())
                let cancel = scene.task("longer") {
                    _ = try? await replica.dispatch(action: .add(1), within: .seconds(2))
                }
                await log.hasHeld(1)
                _ = try? await replica.dispatch(action: .add(2), within: .seconds(1))
                cancel()
                await replica.close()
            }
        },
        Scenario("replica-status", "The status of a closed replica is that it is closed") { scene in
            let log = HoldingLog(holding: [1])
            let kept = Noted<FluxReplica<Log>?>(nil)
            scene.task("dispatches") {
                let replica = try! await join(log)
                kept.value = replica
                log.fails = 1
                let cancel = scene.task("adds") { _ = try? await replica.dispatch(action: .add(2)) }
                await yieldTask()
                await replica.close()
                cancel()
            }
            scene.finally {
                scene.expect(kept.value!.status.state.condition == .closed, "\(kept.value!.status.state.condition)")
                kept.value = nil
            }
        },
        Scenario("replica-snapshot-answers", "A dispatch returns if a snapshot has its action") { scene in
            let log = HoldingLog(holding: [])
            scene.task("dispatches") {
                let (slow, other) = (try! await join(log.slowly(), snapshots: 1), try! await join(log, snapshots: 1))
                log.readsSlowly = true
                let done = FluxLatch()
                scene.task("adds") {
                    _ = try? await slow.dispatch(action: .add(1))
                    done.open()
                }
                await log.hasAppended(1)
                for entry in 2...4 { _ = try! await other.dispatch(action: .add(entry)) }
                await other.close()
                log.goOn()
                await done.wait()
                await slow.close()
            }
        },
        Scenario("replica-close-waits", "Once close() has returned, no call of the log is under way") { scene in
            let log = HoldingLog(holding: [])
            scene.task("dispatches") {
                let replica = try! await join(log, snapshots: 1)
                let cancel = scene.task("adds") { _ = try? await replica.dispatch(action: .add(1)) }
                await yieldTask()
                await replica.close()
                scene.expect(log.underWay == 0, "\(log.underWay) calls are under way")
                cancel()
            }
        },
        Scenario("replica-one-writer", "Two replicas never continue the numbers of the same closed one") { scene in
            let log = HoldingLog(holding: [])
            scene.task("dispatches") {
                var first: FluxReplica<Log>? = try! await join(log)
                _ = try! await first!.dispatch(action: .add(1))
                await first!.close()
                let second = try! await join(log)
                first = nil
                let third = try! await join(log)
                _ = try? await second.dispatch(action: .add(2))
                _ = try? await third.dispatch(action: .add(3))
                try! await third.upToDate()
                scene.expect(third.store.entries, is: [1, 2, 3], "applied")
                await second.close()
                await third.close()
            }
        },
        Scenario("replica-taken-over", "What a closed replica has sent comes before its successor's actions or never") {
            scene in
            let log = HoldingLog(holding: [2])
            scene.task("dispatches") {
                let first = try! await join(log)
                _ = try! await first.dispatch(action: .add(1))
                let done = FluxLatch()
                scene.task("adds") {
                    _ = try? await first.dispatch(action: .add(2))
                    done.open()
                }
                await log.hasHeld(2)
                await first.close()
                await done.wait()
                let second = try! await join(log)
                _ = try! await second.dispatch(action: .add(3))
                await log.bring(2)
                try! await second.upToDate()
                scene.expect(second.store.entries, is: [1, 3], "applied")
                await second.close()
            }
        },
        Scenario("replica-position", "The state is never older than a position that was read before") { scene in
            let log = HoldingLog(holding: [])
            scene.task("dispatches") {
                let (slow, other) = (try! await join(log.slowly(), snapshots: 1), try! await join(log, snapshots: 1))
                log.readsSlowly = true
                var all: [UInt64] = []
                for entry in 1...3 { all.append(try! await other.dispatch(action: .add(entry))) }
                await other.close()
                let positions = all
                let done = FluxLatch()
                scene.task("looks") {
                    while slow.position < positions[2] {
                        let position = slow.position
                        let count = slow.store.entries.count
                        scene.expect(count >= positions.count { $0 <= position }, "\(count) entries at \(position)")
                        await yieldTask()
                    }
                    done.open()
                }
                log.goOn()
                try! await slow.upToDate()
                await done.wait()
                await slow.close()
            }
        },
        Scenario("replica-probes", "No probe of the log is under way once close() has returned") { scene in
            let log = HoldingLog(holding: [])
            scene.task("dispatches") {
                let replica = try! await join(log)
                log.fails = 2
                _ = try! await replica.dispatch(action: .add(1))
                await replica.close()
                scene.expect(log.underWay == 0, "\(log.underWay) calls are under way")
            }
        },
    ]

    private static let coding = FluxReplicaCoding<Log>(
        encode: { if case .add(let entry) = $0 { [UInt8(entry)] } else { [] } },
        decode: { bytes, _ in .add(Int(bytes[0])) },
        encodeState: { $0.entries.map { UInt8($0) } },
        decodeState: { bytes, _ in Log(entries: bytes.map { Int($0) }) })

    private static func join(
        _ log: any FluxSharedLog<[UInt8]>, checks: Int = 1_000, snapshots: Int = 1_000,
        clock: any Clock<Duration> = ScenarioClock(isStopped: true)
    ) async throws -> FluxReplica<Log> {
        try await FluxReplica.joined(
            log: log, initialState: Log(), coding: coding, checkEvery: checks, snapshotEvery: snapshots, backoff: .none,
            clock: clock)
    }
}

/// A clock on which one second passes, and no more.
private struct OneSecond: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration
        static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
    }
    var now: Instant { Instant(offset: .zero) }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        if deadline.offset > .seconds(1) { await FluxLatch().wait() }
        try Task.checkCancellation()
    }
}

/// A log that keeps back some actions until it is told to bring them.
private final class HoldingLog: FluxSharedLog, @unchecked Sendable {
    let base: FluxTestLog
    let holding: Set<UInt8>
    var held: [UInt8: [UInt8]] = [:]
    var appended: Set<UInt8> = []
    var waiters: [(isThere: () -> Bool, latch: FluxLatch)] = []
    var fails = 0
    var underWay = 0
    var readsSlowly = false
    var slowReaders: [FluxLatch] = []
    private var attempts = 0

    init(holding: Set<UInt8>) { (base, self.holding) = (FluxTestLog(seed: 1), holding) }

    private func tell() {
        let due = waiters.filter { $0.isThere() }
        waiters.removeAll { $0.isThere() }
        for waiter in due { waiter.latch.open() }
    }
    private func wait(_ isThere: @escaping () -> Bool) async {
        if isThere() { return }
        let latch = FluxLatch()
        waiters.append((isThere, latch))
        await latch.wait()
    }
    func hasHeld(_ entry: UInt8) async { await wait { self.held[entry] != nil } }
    func hasAppended(_ entry: UInt8) async { await wait { self.appended.contains(entry) } }
    func bring(_ entry: UInt8) async { _ = try? await base.append(held[entry]!, key: "late \(entry)") }
    func goOn() {
        readsSlowly = false
        let all = slowReaders
        slowReaders = []
        for latch in all { latch.open() }
    }
    func slowly() -> SlowLog { SlowLog(log: self) }

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        underWay += 1
        defer { underWay -= 1 }
        // The user's bytes stand before the checksum.
        let content = entry[entry.count - 9]
        if holding.contains(content) {
            held[content] = entry
            tell()
            await FluxLatch().wait()
            throw .unavailable("cancelled")
        }
        if fails > 0 {
            fails -= 1
            throw .unavailable("lost")
        }
        attempts += 1
        let position = try await base.append(entry, key: "\(key) \(attempts)")
        appended.insert(content)
        tell()
        return position
    }
    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        underWay += 1
        defer { underWay -= 1 }
        try await base.read(after: position, receive)
    }
    func end() async throws(FluxSharedLogError) -> UInt64 {
        underWay += 1
        defer { underWay -= 1 }
        await yieldTask()
        return try await base.end()
    }
    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? { try await base.snapshot() }
    func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        underWay += 1
        defer { underWay -= 1 }
        await yieldTask()
        try await base.save(snapshot)
    }
    func trim(through position: UInt64) async throws(FluxSharedLogError) { try await base.trim(through: position) }
}

/// A client of the log that gets nothing while the log reads slowly, and then finds that entries are gone.
private struct SlowLog: FluxSharedLog {
    let log: HoldingLog

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        try await log.append(entry, key: key)
    }
    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        try await log.base.read(after: position) { entries in
            if log.readsSlowly {
                let latch = FluxLatch()
                log.slowReaders.append(latch)
                await latch.wait()
                throw FluxSharedLogError.unavailable("read again")
            }
            try await receive(entries)
        }
    }
    func end() async throws(FluxSharedLogError) -> UInt64 { try await log.end() }
    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? { try await log.snapshot() }
    func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) { try await log.save(snapshot) }
    func trim(through position: UInt64) async throws(FluxSharedLogError) { try await log.trim(through: position) }
}
