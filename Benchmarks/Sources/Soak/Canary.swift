import Synchronization

/// Captured by what has to be let go of: as long as one lives, somebody keeps it.
final class Canary: Sendable {
    private static let count = Atomic<Int>(0)

    static var living: Int { count.load(ordering: .sequentiallyConsistent) }

    init() { Self.count.add(1, ordering: .sequentiallyConsistent) }

    deinit { Self.count.subtract(1, ordering: .sequentiallyConsistent) }
}
