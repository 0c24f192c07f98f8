import FluxCore
import FluxReplication
import JetStreamLog
import LocalServers

/// What replicas cost, compared with the engine alone.
struct Figures: Sendable {
    let logs: JetStreamLog
    let servers: [String]
    let stream: String
    let tell: @Sendable (String) -> Void

    /// The size in bytes of a replica's entry with one number.
    private static var size: Int { 40 }

    /// Appends through a replica and with the bare client in turn, and returns the ratio.
    func throughput() async throws -> Double {
        let (count, atOnce) = (10_000, 256)
        var bare: [Double] = []
        var replicated: [Double] = []
        let replica = try await FluxReplica<Ledger>.joined(
            log: logs.log(for: "throughput"), initialState: Ledger(), coding: Ledger.coding, checkEvery: 10_000,
            snapshotEvery: 1_000_000)
        for round in 0..<3 {
            bare.append(
                try await rate(count) {
                    try await BareClient.onThread {
                        try BareClient(servers: servers, stream: stream, atOnce: atOnce)
                            .append(count, of: Self.size, to: "\(stream).bare.entry")
                    }
                })
            replicated.append(
                try await rate(count) { try await fill(replica, from: round * count, count, atOnce: atOnce) })
        }
        await replica.close()
        let (ours, theirs) = (replicated.sorted()[1], bare.sorted()[1])
        tell(
            "appends per second, \(atOnce) at once, median of three: \(Int(ours)) through a replica, \(Int(theirs)) with the bare client: "
                + "\(Double(Int(ours / theirs * 100)) / 100)")
        return ours / theirs
    }

    /// Starts a node from a snapshot and some entries, and reads these through the log alone; tells how long both take.
    func start() async throws {
        let log = logs.log(for: "start")
        let first = try await snapshot(of: "start")
        let writer = try await join("start")
        try await fill(writer, from: 1, 100_000, atOnce: 512)
        let last = writer.position
        await writer.close()

        struct Enough: Error {}
        let reading = try await seconds {
            do {
                try await log.read(after: first) { batch in
                    if batch.last?.position == last { throw Enough() }
                }
            } catch is Enough {}
        }
        var replica: FluxReplica<Ledger>?
        let joining = try await seconds { replica = try await join("start") }
        tell(
            "a node with \(replica?.store.state.items.count ?? 0) entries starts in \(joining) s; reading them takes \(reading) s"
        )
        await replica?.close()
    }

    /// Makes a replica save a snapshot, and returns its position.
    private func snapshot(of key: String) async throws -> UInt64 {
        let replica = try await join(key, snapshotEvery: 1)
        defer { withExtendedLifetime(replica) {} }
        try await fill(replica, from: 0, 1, atOnce: 1)
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            if let snapshot = try await logs.log(for: key).snapshot() { return snapshot.position }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw ServerFailure(description: "no replica has saved a snapshot")
    }

    private func join(_ key: String, snapshotEvery: Int = 1_000_000) async throws -> FluxReplica<Ledger> {
        try await FluxReplica<Ledger>.joined(
            log: logs.log(for: key), initialState: Ledger(), coding: Ledger.coding, checkEvery: 1_000_000,
            snapshotEvery: snapshotEvery, within: .seconds(60))
    }

    private func fill(_ replica: FluxReplica<Ledger>, from first: Int, _ count: Int, atOnce: Int) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            for worker in 0..<min(atOnce, count) {
                group.addTask {
                    for item in stride(from: first + worker, to: first + count, by: min(atOnce, count)) {
                        try await replica.dispatch(action: Ledger.Action(item: UInt64(item)), within: .seconds(30))
                    }
                }
            }
        }
    }

    private func rate(_ count: Int, _ body: () async throws -> Void) async throws -> Double {
        Double(count) / (try await seconds(body))
    }

    private func seconds(_ body: () async throws -> Void) async throws -> Double {
        let start = ContinuousClock.now
        try await body()
        return ((ContinuousClock.now - start) / .milliseconds(1)).rounded() / 1_000
    }
}
