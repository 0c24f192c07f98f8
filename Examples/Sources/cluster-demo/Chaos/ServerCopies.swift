import Foundation
import LocalServers

/// Each server's copy of one stream: all have the same, or the engine has failed.
///
/// A server answers for a stream only while it leads it, so each server is made the leader in turn.
struct ServerCopies: Sendable {
    /// The message at each position, by the server's name.
    private(set) var copies: [String: [UInt64: String]] = [:]

    /// Reads the copies of all servers of a stream that is no longer written to.
    static func read(of stream: String, at cluster: Cluster) async throws -> ServerCopies {
        let (addresses, names) = (cluster.addresses, Set(cluster.servers.map(\.name)))
        return try await BareClient.onThread {
            var copies = ServerCopies()
            let client = try BareClient(servers: addresses, stream: stream)
            let deadline = ContinuousClock.now + .seconds(120)
            while Set(copies.copies.keys) != names {
                do {
                    let before = try client.standing()
                    if before.isCurrent, copies.copies[before.leader] == nil {
                        var copy: [UInt64: String] = [:]
                        for position in before.positions { copy[position] = try client.message(at: position) }
                        // If the leader has changed meanwhile, the copy mixes those of two servers.
                        if try client.standing().leader == before.leader { copies.copies[before.leader] = copy }
                    }
                    if before.isCurrent { try client.changeLeader() }
                } catch  where ContinuousClock.now > deadline {
                    throw error
                } catch {}
                if ContinuousClock.now > deadline {
                    throw ServerFailure(description: "only \(copies.copies.keys.sorted()) could be made the leader")
                }
                Thread.sleep(forTimeInterval: 0.5)
            }
            return copies
        }
    }

    /// Creates an instance with known copies.
    init(_ copies: [String: [UInt64: String]] = [:]) { self.copies = copies }

    /// The differences between the servers, in one line for each two.
    var differences: [String] {
        let names = copies.keys.sorted()
        return names.indices.flatMap { index in
            names[(index + 1)...].compactMap { other in
                let (one, two) = (copies[names[index]] ?? [:], copies[other] ?? [:])
                let places = Set(one.keys).union(two.keys).filter { one[$0] != two[$0] }.sorted()
                if places.isEmpty { return nil }
                return "the servers \(names[index]) and \(other) differ at \(places.count) positions: "
                    + "\(places.prefix(5)): the engine has lost acknowledged messages"
            }
        }
    }

    /// Returns which servers lack acknowledged messages.
    func lacking(_ acknowledged: [UInt64: String]) -> [String] {
        copies.sorted { $0.key < $1.key }.compactMap { name, copy in
            let lost = acknowledged.filter { copy[$0.key] != $0.value }.keys.sorted()
            if lost.isEmpty { return nil }
            return "\(name) does not have \(lost.count) of \(acknowledged.count) acknowledged messages: "
                + "\(lost.prefix(5))"
        }
    }
}
