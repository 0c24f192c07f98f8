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
    /// The number of a store, and what waits until it has written all.
    typealias Entry = (number: UInt64, flush: @Sendable () async -> Void)

    static let shared = FluxLock(FluxUnwritten())

    private(set) var entries: [String: [Entry]] = [:]
    private var last: UInt64 = 0

    mutating func add(_ entry: Entry, at place: String) { entries[place, default: []].append(entry) }

    func newest(at place: String, before number: UInt64) -> Entry? {
        entries[place]?.filter { $0.number < number }.max { $0.number < $1.number }
    }

    /// Returns what to keep until there is no lock.
    mutating func remove(_ number: UInt64, at place: String) -> [Entry] {
        let all = entries.removeValue(forKey: place) ?? []
        let rest = all.filter { $0.number != number }
        if !rest.isEmpty { entries[place] = rest }
        return all
    }

    // MARK: - For the whole process

    static func nextNumber() -> UInt64 {
        shared.withLock { all in
            all.last += 1
            return all.last
        }
    }

    /// Keeps a store that was let go until it has written what is due.
    static func keep(_ number: UInt64, at place: String?, flush: @escaping @Sendable () async -> Void) {
        guard let place else { return }
        shared.withLock { $0.add((number, flush), at: place) }
        _Concurrency.Task.detached {
            await flush()
            _ = shared.withLock { $0.remove(number, at: place) }
        }
    }

    /// Waits until those made before a number have written what is due at a place, or the task is cancelled.
    static func settle(at place: String?, before number: UInt64 = .max) async {
        guard let place else { return }
        while let entry = shared.withLock({ $0.newest(at: place, before: number) }) {
            await entry.flush()
            if _Concurrency.Task.isCancelled { return }
            _ = shared.withLock { $0.remove(entry.number, at: place) }
        }
    }
}
