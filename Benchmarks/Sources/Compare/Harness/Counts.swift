import Dispatch
import Synchronization

/// A total that came out wrong: a cell that loses or repeats something is no fast cell.
struct WrongCount: Error, CustomStringConvertible {
    let description: String
}

func expect<Value: Equatable>(_ what: String, _ actual: Value, _ expected: Value) throws {
    if actual != expected { throw WrongCount(description: "\(what): \(actual) instead of \(expected)") }
}

/// What one subscriber saw; each state must be one action further than the last.
///
/// One thread writes at a time, so that a relaxed load and store do: an atomic addition would cost more than what is
/// measured.
final class Tally: Sendable {
    private let seen: Atomic<Int>
    private let skips = Atomic<Int>(0)
    private let target = Atomic<Int>(0)
    private let reached = DispatchSemaphore(value: 0)

    /// - Parameter startsWithCurrent: True for a subscriber that is handed the state of count 0 as well.
    init(startsWithCurrent: Bool = false) {
        seen = Atomic(startsWithCurrent ? -1 : 0)
    }

    @inline(__always)
    func see(_ count: Int) {
        let number = seen.load(ordering: .relaxed) + 1
        if number != count { skips.store(count, ordering: .relaxed) }
        seen.store(number, ordering: .relaxed)
        if number == target.load(ordering: .relaxed) { reached.signal() }
    }

    /// Says, before they are dispatched, how many more are to come.
    func anticipate(_ more: Int) {
        target.store(target.load(ordering: .relaxed) + more, ordering: .relaxed)
    }

    func wait() {
        reached.wait()
    }

    func check() throws {
        try expect("states seen", seen.load(ordering: .relaxed), target.load(ordering: .relaxed))
        try expect("state out of order", skips.load(ordering: .relaxed), 0)
    }
}
