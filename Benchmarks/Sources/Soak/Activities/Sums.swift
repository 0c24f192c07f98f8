import Synchronization

/// The expected sum at each of several places, counted from any thread.
final class Sums: Sendable {
    private let sums: Mutex<[Int]>

    init(_ count: Int) { sums = Mutex(Array(repeating: 0, count: count)) }

    subscript(place: Int) -> Int { sums.withLock { $0[place] } }

    func add(_ amount: Int, to place: Int) { sums.withLock { $0[place] += amount } }
}
