import Synchronization

/// A wrong total: a cell that loses or repeats something is not a fast cell.
public struct WrongCount: Error, CustomStringConvertible {
    /// What is wrong.
    public let description: String

    /// Creates an error that says what is wrong.
    public init(description: String) {
        self.description = description
    }
}

/// Throws unless a total is what it should be.
public func expect<Value: Equatable>(_ what: String, _ actual: Value, _ expected: Value) throws {
    if actual != expected { throw WrongCount(description: "\(what): \(actual) instead of \(expected)") }
}

/// Records what one subscriber saw; each state must be one action further than the last.
///
/// One thread writes at a time, so a relaxed load and store are enough. An atomic addition would cost more than what is
/// measured.
public final class Tally: Sendable {
    @usableFromInline let seen: Atomic<Int>
    @usableFromInline let skips = Atomic<Int>(0)
    @usableFromInline let target = Atomic<Int>(.min)
    @usableFromInline let finish: Finish
    private let expected = Atomic<Int>(0)

    /// Creates a tally.
    ///
    /// - Parameters:
    ///   - finish: Notified when everything anticipated has been seen.
    ///   - startsWithCurrent: True for a subscriber that also receives the state of count 0.
    public init(_ finish: Finish, startsWithCurrent: Bool = false) {
        self.finish = finish
        seen = Atomic(startsWithCurrent ? -1 : 0)
    }

    /// Records a state by its count.
    @inlinable @inline(__always)
    public func see(_ count: Int) {
        let number = seen.load(ordering: .relaxed) + 1
        if number != count { skips.store(count, ordering: .relaxed) }
        seen.store(number, ordering: .relaxed)
        if number == target.load(ordering: .relaxed) { finish.arrive() }
    }

    /// Sets, before they are dispatched, how many more actions are to be seen until the finish.
    public func anticipate(_ more: Int) {
        finish.enter()
        target.store(expected.add(more, ordering: .relaxed).newValue, ordering: .relaxed)
    }

    /// Throws unless everything was seen, in order.
    public func check() throws {
        try expect("states seen", seen.load(ordering: .relaxed), expected.load(ordering: .relaxed))
        try expect("state out of order", skips.load(ordering: .relaxed), 0)
    }
}
