import Foundation
import Synchronization

/// The same faults, with the C client alone in place of replicas: what is lost here, the engine has lost.
///
/// Six publishers append one message after another to a stream of the simplest kind, and record what is acknowledged.
/// At the end each server must have all of that.
struct Control: Sendable {
    let cluster: Cluster
    let faults: Faults
    let tell: @Sendable (String) -> Void
    private let stream = "control"

    /// Runs the faults and the publishers, and returns what did not hold.
    func run() async throws -> [String] {
        try await ask { try $0.makeStream() }
        let (history, sent) = (History(), Sent())
        let publishing = (1...6).map { number in
            Task { try await BareClient.onThread { try publish(UInt32(number), history, sent) } }
        }
        let times: [Faults.Time]
        do {
            times = try await faults.run(history) { try await ask { try $0.standing().leader } }
        } catch {
            sent.stop()
            throw error
        }
        sent.stop()
        for task in publishing { try await task.value }
        tell("\(sent.acknowledged.count) messages acknowledged by the bare client, \(times.count) faults")
        let copies = try await ServerCopies.read(of: stream, at: cluster)
        return history.violations + sent.problems + copies.lacking(sent.acknowledged) + copies.differences
    }

    /// Calls the servers, and repeats a failed call for up to a minute, as while there is no leader.
    private func ask<Value: Sendable>(
        _ body: @escaping @Sendable (BareClient) throws -> Value
    ) async throws -> Value {
        try await BareClient.onThread {
            let deadline = ContinuousClock.now + .seconds(60)
            while true {
                do {
                    return try body(BareClient(servers: cluster.addresses, stream: stream))
                } catch  where ContinuousClock.now < deadline {
                    Thread.sleep(forTimeInterval: 0.2)
                }
            }
        }
    }

    /// Runs one publisher until it is stopped.
    private func publish(_ number: UInt32, _ history: History, _ sent: Sent) throws {
        let first = Int(number) % 3
        let addresses = cluster.addresses
        let client = try BareClient(servers: Array(addresses[first...] + addresses[..<first]), stream: stream)
        var random = Random(seed: faults.seed &+ UInt64(number))
        var last: UInt64 = 0
        while !sent.isStopped {
            last += 1
            let (text, call) = ("\(number) \(last)", history.now)
            let position = client.append(text, to: "\(stream).entry")
            if let position {
                sent.note("\(stream).entry \(Data(text.utf8).base64EncodedString())", at: position)
                history.add(
                    .init(
                        client: number, key: stream, item: last, call: call, end: history.now,
                        answer: .added(0, position)))
            }
            Thread.sleep(forTimeInterval: position == nil ? 0.1 : Double.random(in: 0.01...0.03, using: &random))
        }
    }
}

/// The messages that the servers have acknowledged.
private final class Sent: Sendable {
    private struct State {
        var acknowledged: [UInt64: String] = [:]
        var problems: [String] = []
        var isStopped = false
    }

    private let state = Mutex(State())

    var acknowledged: [UInt64: String] { state.withLock { $0.acknowledged } }
    var problems: [String] { state.withLock { $0.problems } }
    var isStopped: Bool { state.withLock { $0.isStopped } }

    func stop() { state.withLock { $0.isStopped = true } }

    func note(_ message: String, at position: UInt64) {
        state.withLock { state in
            if state.acknowledged.updateValue(message, forKey: position) != nil {
                state.problems.append("two messages were acknowledged at \(position)")
            }
        }
    }
}
