import Foundation

/// Faults of servers and nodes, one after another, while clients work.
struct Faults: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case killLeader = "kill -9 of the log's leader"
        case killNode = "kill -9 of a node"
        case pauseLeader = "SIGSTOP of the log's leader"
        case pauseNode = "SIGSTOP of a node"
        case cutServers = "a cut between two servers"
        case cutNode = "a cut between a node and a server"

        /// Whether it needs nodes.
        var isOfNode: Bool { self == .killNode || self == .pauseNode || self == .cutNode }
    }

    /// When a fault began.
    typealias Time = (fault: Kind, at: UInt64)

    let cluster: Cluster
    let seconds: Int
    let seed: UInt64
    let kinds: [Kind]
    let tell: @Sendable (String) -> Void

    /// Causes faults until the time is over.
    ///
    /// - Parameters:
    ///   - history: Records what is acknowledged meanwhile; a client's number tells which of three places it works at.
    ///   - leaderName: Returns the server that currently leads the log.
    /// - Returns: When each fault began.
    /// - Throws: The error that ended it early.
    func run(_ history: History, leader leaderName: () async throws -> String?) async throws -> [Time] {
        var random = Random(seed: seed)
        var times: [Time] = []
        var next: [Kind] = []
        let deadline = ContinuousClock.now + .seconds(seconds)
        try await wait(for: .seconds(3))
        while ContinuousClock.now < deadline {
            if next.isEmpty { next = kinds.shuffled(using: &random) }
            let fault = next.removeLast()
            let (one, other) = (Int.random(in: 0..<3, using: &random), Int.random(in: 1..<3, using: &random))
            let name = try await leaderName()
            let leader = cluster.servers.first { $0.name == name } ?? cluster.servers[one]
            let hold = Swift.Duration.milliseconds(Int.random(in: 4_000...9_000, using: &random))
            times.append((fault, history.now))
            switch fault {
            case .killLeader:
                tell("\(fault.rawValue): \(leader.name), for \(hold)")
                leader.kill()
                try await wait(for: hold)
                try leader.start()
            case .killNode:
                let node = cluster.nodes[one]
                // Long enough for entries that it has read to be gone when it returns.
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
                let node = cluster.nodes[one]
                tell("\(fault.rawValue): \(node.name), for \(hold)")
                node.send(SIGSTOP)
                defer { node.send(SIGCONT) }
                try await wait(for: hold)
            case .cutServers, .cutNode:
                let names =
                    fault == .cutServers
                    ? ("s\(one)", "s\((one + other) % 3)") : ("n\(one)", "s\(Int.random(in: 0..<3, using: &random))")
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

    /// Waits until every place has had an acknowledgement since everything was repaired.
    private func waitUntilWritable(_ history: History) async throws {
        let mended = history.now
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            try await wait(for: .milliseconds(200))
            let places = history.operations.reversed().prefix { $0.end > mended }.compactMap { operation in
                if case .added = operation.answer { return operation.client % 3 }
                return nil
            }
            if Set(places).count == 3 { return }
        }
        history.violated("a minute after the repair, one of the places had acknowledged nothing")
    }

    /// Reports how long no write was acknowledged after each fault.
    func tellPauses(_ faults: [Time], _ added: [UInt64], until end: UInt64) {
        for fault in Kind.allCases {
            let pauses = faults.indices.filter { faults[$0].fault == fault }.map { index -> UInt64 in
                let from = faults[index].at
                let to = index + 1 < faults.count ? faults[index + 1].at : end
                let moments = [from] + added.filter { $0 > from && $0 < to } + [to]
                return zip(moments, moments.dropFirst()).map { $1 - $0 }.max() ?? 0
            }
            if pauses.isEmpty { continue }
            let text = pauses.map { "\(Double($0 / 1_000_000) / 1_000) s" }.joined(separator: ", ")
            tell("no writes after \(fault.rawValue): \(text)")
        }
    }
}
