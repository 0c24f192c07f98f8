import FluxReplication
import Synchronization

/// Several entries in one message: each with its length before it, in four bytes.
///
/// A message has at most 1,024 entries, and their positions go up to the last of the 1,024 that belong to the message's place in the
/// stream. So the end of a log is known without a look into its last message.
enum JetStreamBatch {
    static let most: UInt64 = 1_024
    /// How many bytes a message has, unless one entry has more: a reader holds some hundred messages.
    static let usualSize = 1 << 16

    /// The position of the last entry of a message; 0 where there is no message.
    static func end(of place: UInt64) -> UInt64 { place == 0 ? 0 : place * most + most - 1 }

    /// The place of the message that has the first entry after a position, if there is one.
    static func place(after position: UInt64) -> UInt64 { max(1, (position + 1) / most) }

    /// The position of one of so many entries.
    static func position(of index: Int, in count: Int, at place: UInt64) -> UInt64 {
        end(of: place) - UInt64(count - 1 - index)
    }

    /// How many bytes an entry takes.
    static func size(of entry: [UInt8]) -> Int { 4 + entry.count }

    static func pack(_ entries: [[UInt8]]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(entries.reduce(0) { $0 + size(of: $1) })
        for entry in entries {
            for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: entry.count >> shift)) }
            bytes += entry
        }
        return bytes
    }

    /// The entries of a message with their positions; nil: it is none of ours.
    static func unpack(_ bytes: [UInt8], at place: UInt64) -> [FluxSharedEntry<[UInt8]>]? {
        var entries: [[UInt8]] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            guard rest.count >= 4 else { return nil }
            let count = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(4)
            guard rest.count >= count else { return nil }
            entries.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        guard 1...Int(most) ~= entries.count else { return nil }
        return entries.enumerated().map { index, entry in
            FluxSharedEntry(position: position(of: index, in: entries.count, at: place), entry: entry)
        }
    }
}

/// Appends what comes at the same time as one message: while one is under way, others wait for the next.
///
/// They do not wait for long: one that is not acknowledged soon, as in an election, holds up nobody.
final class JetStreamAppender: Sendable {
    typealias Answer = Result<UInt64, FluxSharedLogError>

    private struct State {
        var last: UInt64 = 0
        var waiting: [(id: UInt64, entry: [UInt8])] = []
        /// Those who are not answered yet, also after their entry was sent.
        var continuations: [UInt64: CheckedContinuation<Answer, Never>] = [:]
        /// The message that others wait for.
        var underWay: UInt64?
    }

    private let state = Mutex(State())
    private let limit: Int
    private let add: @Sendable ([UInt8]) async -> Answer
    static let patience = Swift.Duration.milliseconds(50)

    /// Makes one.
    ///
    /// - Parameters:
    ///   - limit: How many bytes a message may have; a larger entry goes alone.
    ///   - add: Stores a message, and returns its place.
    init(limit: Int, add: @escaping @Sendable ([UInt8]) async -> Answer) { (self.limit, self.add) = (limit, add) }

    /// Appends an entry that is not too large for the servers, and returns its position.
    func append(_ entry: [UInt8]) async -> Answer {
        let id = state.withLock { state in
            state.last += 1
            return state.last
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = state.withLock { state in
                    // Whoever cancels it later finds it.
                    if Task.isCancelled { return true }
                    state.waiting.append((id, entry))
                    state.continuations[id] = continuation
                    return false
                }
                if isCancelled { continuation.resume(returning: .failure(.unavailable("the task was cancelled"))) }
                sendNext()
            }
        } onCancel: {
            let continuation = state.withLock { state in
                state.waiting.removeAll { $0.id == id }
                return state.continuations.removeValue(forKey: id)
            }
            continuation?.resume(returning: .failure(.unavailable("the task was cancelled")))
        }
    }

    private func sendNext() {
        let next = state.withLock { state -> (number: UInt64, batch: [(id: UInt64, entry: [UInt8])])? in
            guard state.underWay == nil, !state.waiting.isEmpty else { return nil }
            var size = 0
            let fitting = state.waiting.prefix(Int(JetStreamBatch.most)).prefix { waiting in
                size += JetStreamBatch.size(of: waiting.entry)
                return size <= limit || size == JetStreamBatch.size(of: waiting.entry)
            }
            let batch = Array(fitting)
            state.waiting.removeFirst(batch.count)
            state.last += 1
            state.underWay = state.last
            return (state.last, batch)
        }
        guard let (number, batch) = next else { return }
        let overtaking = Task {
            try? await Task.sleep(for: Self.patience)
            over(number)
        }
        Task {
            let answer = await add(JetStreamBatch.pack(batch.map(\.entry)))
            overtaking.cancel()
            over(number)
            for (index, waiting) in batch.enumerated() {
                var position = answer.map { JetStreamBatch.position(of: index, in: batch.count, at: $0) }
                // A stream may take smaller messages than the servers do.
                if case .failure(.refused) = answer, batch.count > 1 {
                    position = await add(JetStreamBatch.pack([waiting.entry])).map { JetStreamBatch.end(of: $0) }
                }
                state.withLock { $0.continuations.removeValue(forKey: waiting.id) }?.resume(returning: position)
            }
        }
    }

    /// Nobody waits for a message any more.
    private func over(_ number: UInt64) {
        state.withLock { if $0.underWay == number { $0.underWay = nil } }
        sendNext()
    }
}
