#if canImport(FluxCore)
    import FluxCore
#endif

/// The stores of this process that were let go with something still to be written, by the place it goes to.
///
/// Who loads from a place waits for those that are older than itself, so that no two wait for each other. A store that is
/// kept is in no list, and one that has written all, or never will, is in none any longer.
///
/// | input    | older ones at the place    | none            |
/// |----------|----------------------------|-----------------|
/// | `add`    | one more                   | the first       |
/// | `newest` | the one made last of them  | nil             |
/// | `remove` | one less; the last: no key | nothing         |
nonisolated struct FluxUnwritten: Sendable {
    /// Waits until a store has written all, or never will.
    typealias Flush = @Sendable () async -> Void

    static let shared = FluxLock(FluxUnwritten())

    /// By place, and then by the number of the store.
    private(set) var stores: [String: [UInt64: Flush]] = [:]
    private var last: UInt64 = 0

    mutating func nextNumber() -> UInt64 {
        last += 1
        return last
    }

    mutating func add(_ number: UInt64, at place: String, _ flush: @escaping Flush) {
        stores[place, default: [:]][number] = flush
    }

    func newest(at place: String, before number: UInt64) -> (number: UInt64, flush: Flush)? {
        stores[place]?.filter { $0.key < number }.max { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns what is to be let go of outside the lock.
    mutating func remove(_ number: UInt64, at place: String) -> Flush? {
        defer { if stores[place]?.isEmpty == true { stores[place] = nil } }
        return stores[place]?.removeValue(forKey: number)
    }

    // MARK: - For the whole process

    /// Keeps a store that was let go until it has written what is due.
    static func keep(_ number: UInt64, at place: String, flush: @escaping Flush) {
        shared.withLock { $0.add(number, at: place, flush) }
        _Concurrency.Task.detached {
            await flush()
            _ = shared.withLock { $0.remove(number, at: place) }
        }
    }

    /// Waits until those made before a number have written what is due at a place, or the task is cancelled.
    static func settle(at place: String?, before number: UInt64 = .max) async {
        guard let place else { return }
        while let store = shared.withLock({ $0.newest(at: place, before: number) }) {
            await store.flush()
            if _Concurrency.Task.isCancelled { return }
            _ = shared.withLock { $0.remove(store.number, at: place) }
        }
    }
}
