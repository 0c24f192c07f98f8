import Synchronization

/// Captured by everything that must be released: as long as one lives, something keeps it.
final class Canary: Sendable {
    private static let count = Atomic<Int>(0)

    static var living: Int { count.load(ordering: .sequentiallyConsistent) }

    init() { Self.count.add(1, ordering: .sequentiallyConsistent) }

    deinit { Self.count.subtract(1, ordering: .sequentiallyConsistent) }
}
