import AsyncHTTPClient
import FluxReplication
import Foundation
import JetStreamLog
import LocalServers

/// What goes wrong while clients work, and whether all of it held.
struct Chaos: Sendable {
    enum Fault: String, CaseIterable, Sendable {
        case killLeader = "kill -9 of the log's leader"
        case killNode = "kill -9 of a node"
        case pauseLeader = "SIGSTOP of the log's leader"
        case pauseNode = "SIGSTOP of a node"
        case cutServers = "a cut between two servers"
        case cutNode = "a cut between a node and a server"
    }

    let cluster: Cluster
    let logs: JetStreamLog
    let seconds: Int
    let seed: UInt64
    let faults: [Fault]
    let tell: @Sendable (String) -> Void
    private let keys = ["a", "b", "c"]

    /// Runs it, and returns what did not hold.
    func run() async throws -> [String] {
        let history = History()
        let http = HTTPClient(eventLoopGroupProvider: .singleton)
        let clients = (0..<6).map { number in
            Client(
                number: UInt32(number + 1), node: cluster.nodes[number % 3], keys: keys, history: history, http: http)
        }
        var times: [(fault: Fault, at: UInt64)] = []
        let working = Task {
            await withDiscardingTaskGroup { group in
                for client in clients { group.addTask { await client.run(seed: seed) } }
            }
        }
        do {
            times = try await breakThings(history)
        } catch {
            working.cancel()
            _ = await working.value
            try? await http.shutdown()
            throw error
        }
        working.cancel()
        await working.value
        let (lists, differences) = await agreement(clients)
        try await http.shutdown()

        let operations = history.operations
        let added = operations.filter { if case .added = $0.answer { true } else { false } }
        let unknown = operations.filter { if case .unknown = $0.answer { true } else { false } }
        let fresh = operations.filter { $0.item == nil }
        tell(
            "\(added.count) appends acknowledged, \(unknown.count) unknown, \(fresh.count) fresh and "
                + "\(history.localReads) local reads, \(times.count) faults")
        tellPauses(times, added.map(\.end).sorted(), until: history.now)
        var problems = try await differences + missing(operations) + history.problems(lists)
        if added.count < 100 { problems.append("only \(added.count) appends were acknowledged") }
        return problems
    }

    // MARK: - Faults

    private func breakThings(_ history: History) async throws -> [(fault: Fault, at: UInt64)] {
        var random = Random(seed: seed)
        var times: [(fault: Fault, at: UInt64)] = []
        var next: [Fault] = []
        let deadline = ContinuousClock.now + .seconds(seconds)
        try await wait(for: .seconds(3))
        while ContinuousClock.now < deadline {
            if next.isEmpty { next = faults.shuffled(using: &random) }
            let fault = next.removeLast()
            let (one, other) = (Int.random(in: 0..<3, using: &random), Int.random(in: 1..<3, using: &random))
            let leaderName = try await patiently { () throws(FluxSharedLogError) in try await logs.leader() } ?? ""
            let leader = cluster.servers.first { $0.name == leaderName } ?? cluster.servers[one]
            let node = cluster.nodes[one]
            let hold = Swift.Duration.milliseconds(Int.random(in: 4_000...9_000, using: &random))
            times.append((fault, history.now))
            switch fault {
            case .killLeader:
                tell("\(fault.rawValue): \(leader.name), for \(hold)")
                leader.kill()
                try await wait(for: hold)
                try leader.start()
            case .killNode:
                // So long that entries it has read are gone when it is back.
                tell("\(fault.rawValue): \(node.name), for \(hold)")
                node.kill()
                try await wait(for: hold)
                try node.start()
            case .pauseLeader:
                tell("\(fault.rawValue): \(leader.name), for \(hold)")
                leader.send(SIGSTOP)
                defer { leader.send(SIGCONT) }
                try await wait(for: hold)
            case .pauseNode:
                tell("\(fault.rawValue): \(node.name), for \(hold)")
                node.send(SIGSTOP)
                defer { node.send(SIGCONT) }
                try await wait(for: hold)
            case .cutServers, .cutNode:
                let names = (fault == .cutServers ? "s\(one)" : "n\(one)", "s\((one + other) % 3)")
                tell("\(fault.rawValue): \(names.0) and \(names.1), for \(hold)")
                cluster.cut(names.0, names.1, true)
                defer { cluster.cut(names.0, names.1, false) }
                try await wait(for: hold)
            }
            try await waitUntilWritable(history)
        }
        return times
    }

    private func wait(for duration: Swift.Duration) async throws { try await Task.sleep(for: duration) }

    /// Waits until every node has acknowledged something after all was mended.
    private func waitUntilWritable(_ history: History) async throws {
        let mended = history.now
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            try await wait(for: .milliseconds(200))
            let nodes = history.operations.reversed().prefix { $0.end > mended }.compactMap { operation in
                if case .added = operation.answer { return operation.client % 3 }
                return nil
            }
            if Set(nodes).count == 3 { return }
        }
        history.violated("a minute after all was mended a node has acknowledged nothing")
    }

    // MARK: - Looking back

    /// The lists of all keys, where the nodes have the same.
    private func agreement(_ clients: [Client]) async -> ([String: [UInt64]], [String]) {
        var lists: [String: [UInt64]] = [:]
        var differences: [String] = []
        for key in keys {
            for client in clients.prefix(3) {
                var list: [UInt64]?
                let deadline = ContinuousClock.now + .seconds(60)
                repeat {
                    list = await client.list(of: key)
                    if list == nil { try? await Task.sleep(for: .milliseconds(500)) }
                } while list == nil && .now < deadline
                guard let list else {
                    differences.append("\(key): \(client.node.name) does not answer: \(client.node.lastWords)")
                    continue
                }
                if let first = lists[key], first != list {
                    differences.append(
                        "\(key): \(client.node.name) has \(list.count) actions, another node \(first.count)")
                }
                lists[key] = lists[key] ?? list
            }
        }
        return (lists, differences)
    }

    /// The acknowledged positions that the log itself does not have, of those that were not trimmed.
    private func missing(_ operations: [History.Operation]) async throws -> [String] {
        struct Enough: Error {}
        var problems: [String] = []
        for key in keys {
            let log = logs.log(for: key)
            let end = try await patiently { () throws(FluxSharedLogError) in try await log.end() }
            var first: UInt64 = 0
            var found: Set<UInt64> = []
            do {
                try await log.read(after: 0) { _ in throw Enough() }
            } catch FluxSharedLogError.trimmed(let through) {
                first = through
            } catch is Enough {}
            do {
                if end > first {
                    try await log.read(after: first) { entries in
                        found.formUnion(entries.map(\.position))
                        if entries.contains(where: { $0.position >= end }) { throw Enough() }
                    }
                }
            } catch is Enough {}
            let acknowledged = operations.compactMap { operation -> UInt64? in
                guard operation.key == key, case .added(_, let position) = operation.answer else { return nil }
                return position > first ? position : nil
            }
            let lost = acknowledged.filter { !found.contains($0) }
            if !lost.isEmpty {
                problems.append(
                    "\(key): the log has acknowledged \(lost.count) positions and does not have them: \(lost.prefix(5))"
                )
            }
        }
        return problems
    }

    /// How long nobody could write after each fault.
    private func tellPauses(_ faults: [(fault: Fault, at: UInt64)], _ added: [UInt64], until end: UInt64) {
        for fault in Fault.allCases {
            let pauses = faults.indices.filter { faults[$0].fault == fault }.map { index -> UInt64 in
                let from = faults[index].at
                let to = index + 1 < faults.count ? faults[index + 1].at : end
                let moments = [from] + added.filter { $0 > from && $0 < to } + [to]
                return zip(moments, moments.dropFirst()).map { $1 - $0 }.max() ?? 0
            }
            if pauses.isEmpty { continue }
            let text = pauses.map { "\(Double($0 / 1_000_000) / 1_000) s" }.joined(separator: ", ")
            tell("nobody could write after \(fault.rawValue): \(text)")
        }
    }
}
