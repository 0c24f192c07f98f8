import FluxReplication
import Synchronization

/// Several entries in one message, each preceded by its length in four bytes.
///
/// A message has at most 1,024 entries. Each place in the stream owns 1,024 positions, and a message's entries have the
/// last of these. So the end of a log is known without reading its last message.
enum JetStreamBatch {
    static let most: UInt64 = 1_024
    /// The usual limit of a message in bytes, because a reader holds a few hundred; a larger entry is sent alone.
    static let usualSize = 1 << 16

    /// Returns the position of the last entry of a message; 0 if there is no message.
    static func end(of place: UInt64) -> UInt64 { place == 0 ? 0 : place * most + most - 1 }

    /// Returns the place of the message that holds the first entry after a position, if that entry exists.
    static func place(after position: UInt64) -> UInt64 { max(1, (position + 1) / most) }

    /// Returns the position of the entry at `index` in a message of `count` entries.
    static func position(of index: Int, in count: Int, at place: UInt64) -> UInt64 {
        end(of: place) - UInt64(count - 1 - index)
    }

    /// Returns how many bytes an entry occupies in a message.
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

    /// Returns the entries of a message with their positions, or nil if this program did not write the message.
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

/// Appends entries that arrive at the same time as one message.
///
/// While a message is in flight, later entries wait for the next one, but only for `patience`. So a message whose
/// acknowledgement is slow, as during an election, does not hold them up.
final class JetStreamAppender: Sendable {
    typealias Answer = Result<UInt64, FluxSharedLogError>

    private struct State {
        var last: UInt64 = 0
        var waiting: [(id: UInt64, entry: [UInt8])] = []
        /// The callers that have no answer yet, including those whose entries are already sent.
        var continuations: [UInt64: CheckedContinuation<Answer, Never>] = [:]
        /// The message in flight that the waiting entries wait for.
        var underWay: UInt64?
    }

    private let state = Mutex(State())
    private let limit: Int
    private let add: @Sendable ([UInt8]) async -> Answer
    static let patience = Swift.Duration.milliseconds(50)

    /// Creates an appender.
    ///
    /// - Parameters:
    ///   - limit: The most bytes that a message may have; a larger entry is sent alone.
    ///   - add: Stores a message and returns its place.
    init(limit: Int, add: @escaping @Sendable ([UInt8]) async -> Answer) { (self.limit, self.add) = (limit, add) }

    /// Appends an entry, which must not be too large for the servers, and returns its position.
    func append(_ entry: [UInt8]) async -> Answer {
        let id = state.withLock { state in
            state.last += 1
            return state.last
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = state.withLock { state in
                    // If the task is cancelled later, `onCancel` finds the entry and its continuation.
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
                // The stream's limit for a message may be lower than the servers': send each entry alone.
                if case .failure(.refused) = answer, batch.count > 1 {
                    position = await add(JetStreamBatch.pack([waiting.entry])).map { JetStreamBatch.end(of: $0) }
                }
                state.withLock { $0.continuations.removeValue(forKey: waiting.id) }?.resume(returning: position)
            }
        }
    }

    /// Ends the wait for a message, which was answered or has run out of time, and sends the next one.
    private func over(_ number: UInt64) {
        state.withLock { if $0.underWay == number { $0.underWay = nil } }
        sendNext()
    }
}
