import FluxReplication
import Synchronization

/// One reading of a key's entries, through its own consumer in the servers' memory.
///
/// It requests a limited number of messages at a time, and more only as they are taken. So the servers wait for it, and
/// it holds no more than that. The consumer numbers its deliveries. If one is missing, or nothing is heard, the reader
/// gives up the consumer and creates another one that begins after the last delivered entry. So no entry is skipped,
/// whatever has failed.
struct JetStreamReader {
    private static var batch: Int { 256 }
    private static let expiry = Swift.Duration.seconds(20)
    private static let heartbeat = Swift.Duration.milliseconds(500)

    private let log: JetStreamKeyLog
    private var position: UInt64

    init(log: JetStreamKeyLog, position: UInt64) { (self.log, self.position) = (log, position) }

    /// Reads until the task is cancelled or reading fails.
    mutating func run(_ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        while !Task.isCancelled {
            do {
                try await requireUntrimmed()
                try await consume(receive)
            } catch let error as FluxSharedLogError where Task.isCancelled {
                // Cancellation makes the pending call fail; that is not a failure of the log.
                if case .unavailable = error { return }
                throw error
            }
        }
    }

    private func requireUntrimmed() async throws(FluxSharedLogError) {
        let trimmed = try await log.trimmed()
        if position < trimmed { throw .trimmed(through: trimmed) }
    }

    /// Reads by one consumer until that consumer is lost.
    private mutating func consume(_ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        let connection = log.logs.connection
        let stream = log.logs.stream
        let delivery = Delivery(silence: Self.heartbeat * 4)
        let inbox = NatsConnection.newInbox()
        let subscription = try await connection.subscribe(to: inbox) { delivery.received($0) }
        let watch = connection.watch { delivery.tick($0) }
        defer {
            connection.unwatch(watch)
            connection.end(subscription)
        }
        let name: String
        do {
            let settings = JetStream.ConsumerSettings(
                opt_start_seq: JetStreamBatch.place(after: position), filter_subject: log.entries)
            name = try await log.logs.ask(
                "CONSUMER.CREATE.\(stream)",
                JetStream.encode(JetStream.NewConsumer(stream_name: stream, config: settings)),
                JetStream.ConsumerAnswer.self
            ).name
        } catch {
            throw error.failure("the stream \(stream)")
        }
        defer { connection.post("$JS.API.CONSUMER.DELETE.\(stream).\(name)", [], reply: nil) }

        var isUseful = false
        while true {
            let wanted = delivery.ask(for: Self.batch)
            if wanted > 0 {
                let pull = JetStream.Pull(
                    batch: wanted, expires: Self.expiry.nanoseconds, idle_heartbeat: Self.heartbeat.nanoseconds)
                connection.post("$JS.API.CONSUMER.MSG.NEXT.\(stream).\(name)", JetStream.encode(pull), reply: inbox)
            }
            switch await delivery.next() {
            case .entries(let all):
                isUseful = true
                // The reader may know some entries of the first message already. A server that has not got that far
                // begins at its own end, and so before the place that was requested.
                let entries = Array(all.drop { $0.position <= position })
                if !entries.isEmpty {
                    // Some entries that this reader does not have may have been trimmed before the server sent these.
                    try await requireUntrimmed()
                    try await receive(entries)
                    position = entries.last?.position ?? position
                }
            case .nobody: continue
            case .lost(let reason):
                // This consumer has never delivered anything, so another one would not help.
                if !isUseful, !Task.isCancelled { throw FluxSharedLogError.unavailable(reason) }
                return
            }
        }
    }
}

extension Swift.Duration {
    fileprivate var nanoseconds: Int { Int(self / .nanoseconds(1)) }
}

/// The deliveries of a consumer that the reader has not taken yet.
final class Delivery: Sendable {
    enum Next {
        /// Entries in order; empty if part of a request has expired, so that more must be requested.
        case entries([FluxSharedEntry<[UInt8]>])
        /// The request reached no consumer, and it is time to ask again.
        case nobody
        /// A delivery is missing, or nothing is heard.
        case lost(String)
    }

    fileprivate struct State {
        var entries: [FluxSharedEntry<[UInt8]>] = []
        /// How many of the requested messages may still arrive.
        var outstanding = 0
        /// The consumer's number of the last delivery.
        var last: UInt64 = 0
        /// When the consumer was last heard, or was last sent a request that it may answer.
        var heard = ContinuousClock.now
        var isHeard = false
        /// A request reached no consumer, and none had been heard before.
        var isUnknown = false
        var isStirred = false
        var lost: String?
        var waiter: CheckedContinuation<Next, Never>?

        /// Returns the next result for the waiting caller, if there is one.
        mutating func take() -> Next? {
            if !entries.isEmpty {
                defer { entries = [] }
                return .entries(entries)
            }
            if let lost { return .lost(lost) }
            if isStirred {
                isStirred = false
                return isUnknown ? .nobody : .entries([])
            }
            return nil
        }
    }

    private let state = Mutex(State())
    private let silence: Swift.Duration

    init(silence: Swift.Duration) { self.silence = silence }

    /// Returns how many messages to request so that at most `batch` are outstanding; 0 while enough are.
    func ask(for batch: Int) -> Int {
        state.withLock { state in
            if !state.isUnknown { state.heard = .now }
            guard state.outstanding <= batch / 2 else { return 0 }
            defer { state.outstanding = batch }
            return batch - state.outstanding
        }
    }

    /// Waits for the next result.
    func next() async -> Next {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let next = state.withLock { state in
                    let next = state.take()
                    if next == nil { state.waiter = continuation }
                    return next
                }
                if let next { continuation.resume(returning: next) }
            }
        } onCancel: {
            change { $0.lost = "the task was cancelled" }
        }
    }

    func received(_ message: NatsConnection.Message) {
        change { state in
            // This comes from the client's server, not from the consumer.
            if message.status == 503 { return state.foundNobody() }
            (state.heard, state.isHeard, state.isUnknown) = (.now, true, false)
            if let status = message.status {
                state.took(status, message)
            } else {
                state.took(message)
            }
        }
    }

    func tick(_ now: ContinuousClock.Instant) {
        change { state in
            guard state.waiter != nil else { return }
            if state.isUnknown { state.isStirred = true }
            if now - state.heard > silence {
                state.lost = state.isUnknown ? "no server knows the consumer" : "the consumer has gone silent"
            }
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let (waiter, next) = state.withLock { state -> (CheckedContinuation<Next, Never>?, Next?) in
            body(&state)
            guard state.waiter != nil, let next = state.take() else { return (nil, nil) }
            return (state.waiter.take(), next)
        }
        if let waiter, let next { waiter.resume(returning: next) }
    }
}

extension Delivery.State {
    /// Takes a delivery.
    ///
    /// Its reply is `$JS.ACK.STREAM.CONSUMER.TIMES.PLACE.NUMBER.TIME.PENDING`; newer servers add words before the
    /// stream and at the end.
    fileprivate mutating func took(_ message: NatsConnection.Message) {
        guard lost == nil else { return }
        let words = message.reply.split(separator: ".")
        let first = words.count == 9 ? 5 : 7
        guard words.count >= 9, words.count > first + 1, let place = UInt64(words[first]),
            let number = UInt64(words[first + 1])
        else {
            lost = "unreadable delivery: \(message.reply)"
            return
        }
        guard number == last + 1 else {
            lost = "delivery \(last + 1) is missing"
            return
        }
        last = number
        outstanding -= 1
        guard let batch = JetStreamBatch.unpack(message.body, at: place) else {
            lost = "the message at \(place) was not written by this program"
            return
        }
        entries += batch
    }

    /// Records that a request reached no consumer.
    ///
    /// The answer that a consumer was created can arrive before the servers know from each other where it is. So a
    /// consumer that was never heard is asked again for a while. If it was heard before, its server is gone.
    fileprivate mutating func foundNobody() {
        if isHeard { lost = "no server knows the consumer any more" } else { (outstanding, isUnknown) = (0, true) }
    }

    /// Takes a status message of the consumer.
    fileprivate mutating func took(_ status: Int, _ message: NatsConnection.Message) {
        switch status {
        case 100:
            if let sent = message.counts["Nats-Last-Consumer"], sent > last { lost = "delivery \(last + 1) is missing" }
            // A heartbeat before the first delivery: the consumer exists, and has nothing yet.
            if last == 0 { isStirred = true }
        case 404, 408:
            outstanding -= Int(message.counts["Nats-Pending-Messages"] ?? UInt64(max(0, outstanding)))
            isStirred = true
        default: lost = "the consumer has ended: \(status) \(message.description)"
        }
    }
}
