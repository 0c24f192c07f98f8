import FluxReplication
import Synchronization

/// One reading of a key's entries, by a consumer that the servers have in memory for it alone.
///
/// It asks for so many messages at a time, and for more only as they are taken: the servers wait for it, and it holds no more than that.
/// Entries carry a number of the consumer. Where one is missing, or nothing is heard, the consumer is given up and another is
/// made behind the last entry that was handed on. So nothing is skipped, whatever has failed.
struct JetStreamReader {
    private static var batch: Int { 256 }
    private static let expiry = Swift.Duration.seconds(20)
    private static let heartbeat = Swift.Duration.milliseconds(500)

    private let log: JetStreamKeyLog
    private var position: UInt64

    init(log: JetStreamKeyLog, position: UInt64) { (self.log, self.position) = (log, position) }

    /// Reads until the task is cancelled, or it fails.
    mutating func run(_ receive: ([FluxSharedEntry<[UInt8]>]) async throws -> Void) async throws {
        while !Task.isCancelled {
            do {
                try await requireUntrimmed()
                try await consume(receive)
            } catch let error as FluxSharedLogError where Task.isCancelled {
                // What a cancelled task waited for fails; that is no failure of the log.
                if case .unavailable = error { return }
                throw error
            }
        }
    }

    private func requireUntrimmed() async throws(FluxSharedLogError) {
        let trimmed = try await log.trimmed()
        if position < trimmed { throw .trimmed(through: trimmed) }
    }

    /// Reads by one consumer until that is lost.
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
                // Some of the first message may be known. And a server that has not got so far begins at its own end, and so before
                // the place that it was told.
                let entries = Array(all.drop { $0.position <= position })
                if !entries.isEmpty {
                    // Before they were sent some may have gone that this reader has not had.
                    try await requireUntrimmed()
                    try await receive(entries)
                    position = entries.last?.position ?? position
                }
            case .nobody: continue
            case .lost(let reason):
                // Another consumer would help no more than this one, which has never said anything.
                if !isUseful, !Task.isCancelled { throw FluxSharedLogError.unavailable(reason) }
                return
            }
        }
    }
}

extension Swift.Duration {
    fileprivate var nanoseconds: Int {
        Int(components.seconds) * 1_000_000_000 + Int(components.attoseconds / 1_000_000_000)
    }
}

/// What a consumer has sent and nobody has taken yet.
final class Delivery: Sendable {
    enum Next {
        /// Entries in order; none where some of what was asked for has run out, so that more has to be asked for.
        case entries([FluxSharedEntry<[UInt8]>])
        /// Nobody was there who could be asked, and it is time to ask again.
        case nobody
        /// Some are missing, or nothing is heard.
        case lost(String)
    }

    fileprivate struct State {
        var entries: [FluxSharedEntry<[UInt8]>] = []
        /// How many may still come of those that were asked for.
        var outstanding = 0
        /// The number that the consumer gave to the last entry.
        var last: UInt64 = 0
        /// When the consumer was heard the last time, or asked for something that it may answer.
        var heard = ContinuousClock.now
        var isHeard = false
        /// Nobody was there when it was asked, and it was not heard before that.
        var isUnknown = false
        var isStirred = false
        var lost: String?
        var waiter: CheckedContinuation<Next, Never>?

        /// What there is to say to who waits.
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

    /// How many to ask for so that no more than a number are under way; 0 while there are enough.
    func ask(for batch: Int) -> Int {
        state.withLock { state in
            if !state.isUnknown { state.heard = .now }
            guard state.outstanding <= batch / 2 else { return 0 }
            defer { state.outstanding = batch }
            return batch - state.outstanding
        }
    }

    /// Waits for what comes next.
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
            // The server of this client has said that, and not the consumer.
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
    /// Takes an entry, whose reply is `$JS.ACK.STREAM.CONSUMER.TIMES.PLACE.NUMBER.TIME.PENDING`, with more words before the stream
    /// and after the last in newer servers.
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

    /// Takes that what was asked has come to nobody.
    ///
    /// The answer that a consumer is made can arrive before the servers have told each other where it is. So one that was never
    /// heard is asked again for a while; of another it means that its server has gone.
    fileprivate mutating func foundNobody() {
        if isHeard { lost = "no server knows the consumer any more" } else { (outstanding, isUnknown) = (0, true) }
    }

    /// Takes what the consumer says of itself.
    fileprivate mutating func took(_ status: Int, _ message: NatsConnection.Message) {
        switch status {
        case 100:
            if let sent = message.counts["Nats-Last-Consumer"], sent > last { lost = "delivery \(last + 1) is missing" }
            // The first says that there is nothing yet: the consumer is there.
            if last == 0 { isStirred = true }
        case 404, 408:
            outstanding -= Int(message.counts["Nats-Pending-Messages"] ?? UInt64(max(0, outstanding)))
            isStirred = true
        default: lost = "the consumer has ended: \(status) \(message.description)"
        }
    }
}
