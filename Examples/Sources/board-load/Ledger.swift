import NIOCore
import Synchronization

/// Records what one board has sent to its watchers, and with what delays; used on the watchers' loop only.
///
/// The first watcher that sees a change records it, and all others must see the same bytes. This checks that all
/// clients end on one state, without applying each change two thousand times.
final class Ledger {
    private struct Change {
        var bytes: [UInt8]
        var sent: UInt64?
    }

    let path: String
    /// The revision that all watchers must reach, once it is known.
    var last: Int?
    private(set) var complaints: [String] = []
    private(set) var delays = Delays()
    private(set) var skipped = 0
    private let commands: Commands
    private var changes: [Int: Change] = [:]
    private var states: [Int: [UInt8]] = [:]

    init(path: String, commands: Commands) { (self.path, self.commands) = (path, commands) }

    func complain(_ text: String) { complaints.append("\(path): \(text)") }

    /// Records that a watcher has received a change.
    func saw(change revision: Int, _ bytes: UnsafeRawBufferPointer, at now: UInt64) {
        if let change = changes[revision] {
            let isSame = change.bytes.withUnsafeBytes { $0.elementsEqual(bytes) }
            if !isSame { complain("revision \(revision) is not the same for all") }
            if let sent = change.sent { delays.note(now &- sent) }
        } else {
            let sent = commands.sent(by: bytes)
            changes[revision] = Change(bytes: Array(bytes), sent: sent)
            if let sent { delays.note(now &- sent) }
        }
    }

    /// Records that a watcher has received a state in place of the changes after a revision; nil: it is its first.
    func saw(state revision: Int, after old: Int?, _ bytes: UnsafeRawBufferPointer, at now: UInt64) {
        if let state = states[revision] {
            let isSame = state.withUnsafeBytes { $0.elementsEqual(bytes) }
            if !isSame { complain("the state of revision \(revision) is not the same for all") }
        } else {
            states[revision] = Array(bytes)
        }
        guard let old, revision > old else { return }
        // The watcher sees now what it has missed.
        for missed in (old + 1)...revision {
            skipped += 1
            if let sent = changes[missed]?.sent { delays.note(now &- sent) }
        }
    }

    /// Applies all changes to the first state, and compares the results with each state that was sent.
    ///
    /// - Returns: The board at the last revision.
    func replay(_ decoder: Decoding) -> Board? {
        guard let first = states.keys.min(), let last, var board = decoder.board(states[first]) else {
            complain("no state was seen")
            return nil
        }
        var revision = first
        while revision < last {
            revision += 1
            if let bytes = changes[revision]?.bytes {
                guard let change = decoder.change(bytes), board.apply(change) else {
                    complain("the change of revision \(revision) does not fit the board")
                    return nil
                }
            } else if let next = states.keys.filter({ $0 >= revision }).min(), let known = decoder.board(states[next]) {
                (revision, board) = (next, known)
            } else {
                complain("no client has seen revision \(revision)")
                return nil
            }
            if let state = states[revision], decoder.board(state) != board {
                complain("the state of revision \(revision) differs from the result of the changes")
            }
        }
        return board
    }
}

/// The time when each command was sent; used by two loops.
final class Commands: Sendable {
    private let times: Mutex<[UInt64]>

    init(_ count: Int) { times = Mutex(Array(repeating: 0, count: count)) }

    static func client(_ number: Int) -> String { "load-\(100_000_000 + number)" }

    func note(_ number: Int, sent time: UInt64) { times.withLock { $0[number] = time } }

    /// Returns the time of the command that led to a change; each command has its own client.
    func sent(by change: UnsafeRawBufferPointer) -> UInt64? {
        guard let place = change.firstRange(of: "\"load-".utf8) else { return nil }
        let digits = change[place.upperBound...].prefix(9)
        guard let number = Int(String(decoding: digits, as: UTF8.self)).map({ $0 - 100_000_000 }) else { return nil }
        return times.withLock { $0.indices.contains(number) && $0[number] > 0 ? $0[number] : nil }
    }
}

/// Durations, in steps of about one per cent.
struct Delays {
    private var counts = [Int](repeating: 0, count: 64 * 64)
    private(set) var count = 0

    mutating func note(_ nanoseconds: UInt64) {
        counts[Self.step(nanoseconds / 1_000)] += 1
        count += 1
    }

    mutating func add(_ other: Delays) {
        for step in counts.indices { counts[step] += other.counts[step] }
        count += other.count
    }

    /// Returns the time in milliseconds that a part of the durations did not exceed.
    func quantile(_ part: Double) -> Double {
        var rest = Int((Double(count) * part).rounded(.up))
        for step in counts.indices {
            rest -= counts[step]
            if rest <= 0 { return Double(Self.end(of: step)) / 1_000 }
        }
        return 0
    }

    /// Returns the step of a number: each below 64 has its own, and each doubling above has 64.
    private static func step(_ value: UInt64) -> Int {
        if value < 64 { return Int(value) }
        let doublings = 57 - value.leadingZeroBitCount
        return (doublings + 1) * 64 + Int((value >> UInt64(doublings)) & 63)
    }

    private static func end(of step: Int) -> UInt64 {
        if step < 64 { return UInt64(step) }
        let doublings = step / 64 - 1
        return UInt64(64 + step % 64 + 1) << UInt64(doublings)
    }
}
