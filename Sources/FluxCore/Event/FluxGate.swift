import Synchronization

/// What may happen to a task from any thread at any moment, in one atomic word: most tasks are never looked at, and
/// begin, dispatch and end without a lock.
///
/// | input       | open                                         | closed                                |
/// |-------------|----------------------------------------------|---------------------------------------|
/// | `start`     | started                                      | refused                               |
/// | `enter`     | one more dispatch is under way               | refused                               |
/// | `leave`     | one less is under way, one more was sent     | the same                              |
/// | `watch`     | whoever closes it has to tell those who wait | nobody will tell: it had been closed  |
/// | `supervise` | whoever closes it has to tell the creator    | nobody will tell: it had been closed  |
/// | `claim`     | nothing enters or closes it by the way       | refused                               |
/// | `close`     | closed for good, with the way it ended       | refused                               |
///
/// Who has claimed it closes it, or leaves that to whoever comes by and knows the end, with `closeClaimed`.
///
/// Each input is one atomic step and returns the word before it, so that of two at once one sees the other.
nonisolated struct FluxGate: ~Copyable, Sendable {
    /// How a task ended; the error of a failure is kept elsewhere.
    enum End: UInt64 {
        case completed, failed, cancelled, dropped
    }

    // Bit 0: closed. 1: started. 2: watched. 3: supervised. 4 and 5: the end. 6: traced. 7: claimed. From 8: how many
    // dispatches are under way. From 32: how many actions were sent.
    /// What the bits say.
    struct Word {
        fileprivate static var closed: UInt64 { 1 }
        fileprivate static var started: UInt64 { 2 }
        fileprivate static var watched: UInt64 { 4 }
        fileprivate static var supervised: UInt64 { 8 }
        fileprivate static var traced: UInt64 { 64 }
        fileprivate static var claimed: UInt64 { 128 }
        fileprivate static var underWay: UInt64 { 1 << 8 }
        fileprivate static var sent: UInt64 { 1 << 32 }

        fileprivate let bits: UInt64

        var isClosed: Bool { bits & Self.closed != 0 }
        /// Whether it is closed, or about to be by who has claimed it.
        var isTaken: Bool { bits & (Self.closed | Self.claimed) != 0 }
        var isStarted: Bool { bits & Self.started != 0 }
        var isWatched: Bool { bits & Self.watched != 0 }
        var isSupervised: Bool { bits & Self.supervised != 0 }
        var isTraced: Bool { bits & Self.traced != 0 }
        var dispatches: UInt64 { bits >> 8 & 0xFF_FFFF }
        var sent: UInt64 { bits >> 32 }
        /// How it ended; nil while it is open.
        var end: End? { isClosed ? End(rawValue: bits >> 4 & 3) : nil }
    }

    private let bits: Synchronization.Atomic<UInt64>

    init(isSupervised: Bool = false, isTraced: Bool = false) {
        bits = Synchronization.Atomic((isSupervised ? Word.supervised : 0) | (isTraced ? Word.traced : 0))
    }

    var word: Word { Word(bits: bits.load(ordering: .acquiring)) }
    /// The word, in one order with what the caller has written before.
    var wordInOrder: Word { Word(bits: bits.load(ordering: .sequentiallyConsistent)) }

    func start() -> Word { addUnlessTaken(Word.started) }

    func close(_ end: End) -> Word { addUnlessTaken(Word.closed | end.rawValue << 4) }

    /// With `entering`, a dispatch is under way from here on.
    func claim(entering: Bool) -> Word { addUnlessTaken(Word.claimed, entering ? Word.underWay : 0) }

    /// Closes it once it is claimed; the word it returns is that of a gate that nobody had claimed.
    func closeClaimed(_ end: End) -> Word {
        let before = bits.bitwiseOr(Word.closed | end.rawValue << 4, ordering: .acquiringAndReleasing).oldValue
        return Word(bits: before & ~Word.claimed)
    }

    /// The same with the last dispatch, which ends in the same step; nobody else may close it.
    func closeClaimedLeaving(_ end: End) -> Word {
        let more = (Word.closed | end.rawValue << 4) &+ (Word.sent &- Word.underWay)
        let before = bits.add(more, ordering: .acquiringAndReleasing).oldValue
        return Word(bits: before & ~Word.claimed)
    }

    func watch() -> Word {
        Word(bits: bits.bitwiseOr(Word.watched, ordering: .acquiringAndReleasing).oldValue)
    }

    func supervise() -> Word {
        Word(bits: bits.bitwiseOr(Word.supervised, ordering: .acquiringAndReleasing).oldValue)
    }

    func enter() -> Word {
        let before = Word(bits: bits.add(Word.underWay, ordering: .acquiringAndReleasing).oldValue)
        if before.isTaken { bits.subtract(Word.underWay, ordering: .releasing) }
        return before
    }

    func leave() -> Word {
        Word(bits: bits.add(Word.sent &- Word.underWay, ordering: .acquiringAndReleasing).oldValue)
    }

    /// Counts an action that another task has sent on behalf of this one.
    func count() -> Word {
        Word(bits: bits.add(Word.sent, ordering: .acquiringAndReleasing).oldValue)
    }

    private func addUnlessTaken(_ more: UInt64, _ count: UInt64 = 0) -> Word {
        var before = bits.load(ordering: .relaxed)
        while before & (Word.closed | Word.claimed) == 0 {
            let (isDone, original) = bits.weakCompareExchange(
                expected: before, desired: (before | more) &+ count, ordering: .acquiringAndReleasing)
            if isDone { break }
            before = original
        }
        return Word(bits: before)
    }
}
