import Explorer
import Flux

/// Scenarios by chance about replicas: two nodes of one log dispatch, read, close and join again while the log fails.
///
/// A seed always produces the same scenario; its title says what each node does. Afterwards a third node joins: what it
/// has is what the others must have agreed on.
enum RandomReplicas {
    static let scenarios = (1...8).map { scenario(UInt64($0)) }

    fileprivate enum Step: String, CaseIterable {
        case add, addAgain, addAndCancel, addAndClose, read, joinAgain, outage
    }

    private static func scenario(_ seed: UInt64) -> Scenario {
        var chance = Chance(seed)
        let (snapshots, checks) = (1 + chance.number(below: 3), 1 + chance.number(below: 3))
        let (isFaulty, isTimed) = (chance.isOne(in: 3), chance.isOne(in: 2))
        let nodes = (0..<2).map { _ in chance.some(1 + chance.number(below: 3)) as [Step] }
        let title =
            "[a snapshot every \(snapshots), a checksum every \(checks)\(isFaulty ? ", faults" : "")"
            + (isTimed ? ", time limits] " : "] ")
            + Random.title(nodes)
        return Scenario("random-replicas-\(seed)", title) { scene in
            let log = FailingLog(FluxTestLog(seed: seed, faults: isFaulty ? .many : .none))
            let world = World(scene, log, snapshots, checks, isTimed)
            for (node, steps) in nodes.enumerated() { scene.task("node \(node)") { await world.run(node, steps) } }
            scene.finally { scene.task("a third node") { await world.joinAtTheEnd() } }
            scene.finally { world.check() }
        }
    }
}

private final class World: @unchecked Sendable {
    let (scene, log): (Scene, FailingLog)
    let (snapshots, checks, isTimed): (Int, Int, Bool)
    /// The actions whose dispatch has returned, and those that were not applied and never will be.
    var (acknowledged, refused) = ([Int](), [Int]())
    var positions: [Int: UInt64] = [:]
    /// What each replica has dispatched, one after the other.
    var dispatched: [ObjectIdentifier: [Int]] = [:]
    /// The replicas, kept so that no two have the same address.
    var replicas: [FluxReplica<Log>] = []
    var seen: [[Int]] = []
    var last: [Int]?

    private let coding = FluxReplicaCoding<Log>(
        encode: { if case .add(let entry) = $0 { [UInt8(entry)] } else { [] } },
        decode: { bytes, _ in .add(Int(bytes[0])) },
        encodeState: { $0.entries.map { UInt8($0) } },
        decodeState: { bytes, _ in Log(entries: bytes.map { Int($0) }) })

    init(_ scene: Scene, _ log: FailingLog, _ snapshots: Int, _ checks: Int, _ isTimed: Bool) {
        (self.scene, self.log) = (scene, log)
        (self.snapshots, self.checks, self.isTimed) = (snapshots, checks, isTimed)
    }

    private func join(isTimed: Bool) async throws -> FluxReplica<Log> {
        let replica = try await FluxReplica.joined(
            log: log, initialState: Log(), coding: coding, checkEvery: checks, snapshotEvery: snapshots, backoff: .none,
            clock: ScenarioClock(isStopped: !isTimed))
        replicas.append(replica)
        return replica
    }

    func run(_ node: Int, _ steps: [RandomReplicas.Step]) async {
        do {
            var replica = try await join(isTimed: isTimed)
            for (index, step) in steps.enumerated() {
                await take(step, node * 10 + index + 1, &replica)
                seen.append(replica.store.entries)
            }
        } catch { expectAllowed(error) }
    }

    private func take(_ step: RandomReplicas.Step, _ number: Int, _ replica: inout FluxReplica<Log>) async {
        do {
            switch step {
            case .add, .addAgain:
                dispatched[ObjectIdentifier(replica), default: []].append(number)
                await add(number, replica)
            case .addAndCancel:
                let cancel = scene.task("adds \(number)") { [replica] in await self.add(number, replica) }
                await yieldTask()
                cancel()
            case .read:
                let before = acknowledged
                try await replica.upToDate()
                let (position, entries) = (replica.position, replica.store.entries)
                let behind = acknowledged.filter { positions[$0]! <= position }
                for number in before + behind {
                    scene.expect(entries.contains(number), "\(number) is missing in \(entries)")
                }
            case .addAndClose:
                scene.task("adds \(number)") { [replica] in await self.add(number, replica) }
                await yieldTask()
                await replica.close()
            case .joinAgain: replica = try await join(isTimed: isTimed)
            case .outage: log.failures = 3
            }
        } catch { expectAllowed(error) }
    }

    private func add(_ number: Int, _ replica: FluxReplica<Log>) async {
        do {
            positions[number] = try await replica.dispatch(action: .add(number))
            acknowledged.append(number)
            let entries = replica.store.entries
            scene.expect(entries.contains(number), "\(number) is missing in \(entries) when its dispatch has returned")
        } catch {
            expectAllowed(error)
            if case .unconfirmed = error { return }
            refused.append(number)
        }
    }

    private func expectAllowed(_ error: any Error) {
        switch error as? FluxReplicaError {
        case .closed, .cancelled, .unconfirmed: break
        case .unavailable: scene.expect(isTimed, "\(error), although no time was up")
        default: scene.expect(false, "\(error)")
        }
    }

    func joinAtTheEnd() async {
        for replica in replicas { await replica.close() }
        do {
            let replica = try await join(isTimed: false)
            // Closed first: an entry that comes late would be in only one of two states that are read.
            await replica.close()
            last = replica.store.entries
        } catch { scene.expect(false, "the third node: \(error)") }
    }

    func check() {
        guard let last else { return }
        scene.expect(Set(last).count, is: last.count, "each once")
        for number in acknowledged { scene.expect(last.contains(number), "\(number) is lost: \(last)") }
        for number in refused { scene.expect(!last.contains(number), "\(number) was refused, but is in \(last)") }
        for state in seen + replicas.map(\.store.entries) {
            scene.expect(last.starts(with: state), "\(state) is no beginning of \(last)")
        }
        for numbers in dispatched.values { scene.expect(numbers.filter(last.contains), in: last, "one by one") }
    }
}

/// A log of which the next calls fail, with and without an effect in turn; it has each attempt as an entry of its own.
private final class FailingLog: FluxSharedLog, @unchecked Sendable {
    private let log: FluxTestLog
    private var attempts = 0
    var failures = 0

    init(_ log: FluxTestLog) { self.log = log }

    private func call<Answer>(
        _ body: () async throws(FluxSharedLogError) -> Answer
    ) async throws(FluxSharedLogError) -> Answer {
        let number = failures
        if number == 0 { return try await body() }
        failures -= 1
        if !number.isMultiple(of: 2) { throw .unavailable("the request was lost") }
        _ = try await body()
        throw .unavailable("the answer was lost")
    }

    func append(_ entry: [UInt8], key: String) async throws(FluxSharedLogError) -> UInt64 {
        attempts += 1
        let attempt = "\(key) \(attempts)"
        return try await call { () async throws(FluxSharedLogError) in try await log.append(entry, key: attempt) }
    }

    func read(after position: UInt64, _ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        try await log.read(after: position) { entries in
            try await call { () async throws(FluxSharedLogError) in }
            try await receive(entries)
        }
    }

    func end() async throws(FluxSharedLogError) -> UInt64 {
        try await call { () async throws(FluxSharedLogError) in try await log.end() }
    }

    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<[UInt8]>? {
        try await call { () async throws(FluxSharedLogError) in try await log.snapshot() }
    }

    func save(_ snapshot: FluxSharedSnapshot<[UInt8]>) async throws(FluxSharedLogError) {
        try await call { () async throws(FluxSharedLogError) in try await log.save(snapshot) }
    }

    func trim(through position: UInt64) async throws(FluxSharedLogError) {
        try await call { () async throws(FluxSharedLogError) in try await log.trim(through: position) }
    }
}
