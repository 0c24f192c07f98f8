import AsyncHTTPClient
import FluxReplication
import Foundation
import JetStreamLog
import LocalServers

/// Causes faults while clients work, and checks that every promise was kept.
struct Chaos: Sendable {
    let cluster: Cluster
    let logs: JetStreamLog
    let faults: Faults
    let tell: @Sendable (String) -> Void
    private let keys = ["a", "b", "c"]

    /// Runs everything, and returns what did not hold.
    func run() async throws -> [String] {
        let history = History()
        let http = HTTPClient(eventLoopGroupProvider: .singleton)
        let clients = (0..<6).map { number in
            Client(
                number: UInt32(number + 1), node: cluster.nodes[number % 3], keys: keys, history: history, http: http)
        }
        var times: [Faults.Time] = []
        let working = Task {
            await withDiscardingTaskGroup { group in
                for client in clients { group.addTask { await client.run(seed: faults.seed) } }
            }
        }
        do {
            times = try await faults.run(history) {
                try await patiently { () throws(FluxSharedLogError) in try await logs.leader() }
            }
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
        faults.tellPauses(times, added.map(\.end).sorted(), until: history.now)
        var problems = try await differences + missing(operations) + history.problems(lists)
        // The nodes end first: they write a mark whenever they reconnect, and reading each copy changes the leader.
        for node in cluster.nodes { node.end() }
        problems += try await ServerCopies.read(of: Cluster.stream, at: cluster).differences
        if added.count < 100 { problems.append("only \(added.count) appends were acknowledged") }
        return problems
    }

    // MARK: - Looking back

    /// Returns the lists of all keys, and the differences between the nodes.
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

    /// Returns the acknowledged positions that the log itself does not have, except trimmed ones.
    private func missing(_ operations: [History.Operation]) async throws -> [String] {
        var problems: [String] = []
        for key in keys {
            let log = logs.log(for: key)
            let end = try await patiently { () throws(FluxSharedLogError) in try await log.end() }
            let (first, found) = try await positions(of: log, through: end)
            let acknowledged = operations.compactMap { operation -> UInt64? in
                guard operation.key == key, case .added(_, let position) = operation.answer else { return nil }
                return position > first ? position : nil
            }
            let lost = acknowledged.filter { !found.contains($0) }
            if !lost.isEmpty {
                problems.append(
                    "\(key): the log has acknowledged \(lost.count) positions that it does not have: \(lost.prefix(5))"
                )
            }
        }
        return problems
    }

    /// Returns up to where a log is trimmed, and the positions after that; retries for a minute if it is unavailable.
    private func positions(
        of log: JetStreamKeyLog, through end: UInt64
    ) async throws -> (trimmed: UInt64, found: Set<UInt64>) {
        struct Enough: Error {}
        var trimmed: UInt64 = 0
        var found: Set<UInt64> = []
        let deadline = ContinuousClock.now + .seconds(60)
        while trimmed < end {
            try Task.checkCancellation()
            do {
                try await log.read(after: trimmed) { entries in
                    found.formUnion(entries.map(\.position))
                    if entries.contains(where: { $0.position >= end }) { throw Enough() }
                }
            } catch is Enough {
                break
            } catch FluxSharedLogError.trimmed(let through) {
                trimmed = through
            } catch FluxSharedLogError.unavailable(_) where ContinuousClock.now < deadline {
                try await Task.sleep(for: .milliseconds(200))
            }
        }
        return (trimmed, found)
    }
}
