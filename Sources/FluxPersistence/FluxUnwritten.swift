#if canImport(FluxCore)
    import FluxCore
#endif

/// The stores of this process that have something to write, by the place it goes to, for as long as they write it.
///
/// Who loads from a place waits for those that are older than itself, and what a store's own code loads or opens for those that
/// are older than that store, too: so no two wait for each other. One that has written all, or never will, is in here no longer.
///
/// | input    | older ones at the place    | none            |
/// |----------|----------------------------|-----------------|
/// | `add`    | one more                   | the first       |
/// | `newest` | the one made last of them  | nil             |
/// | `remove` | one less; the last: no key | nothing         |
nonisolated struct FluxUnwritten: Sendable {
    /// One that writes, or will.
    struct Entry: Sendable {
        let store: UInt64
        /// Waits until it has written all, or never will.
        let flush: @Sendable () async -> Void
    }

    static let shared = FluxLock(FluxUnwritten())
    /// The number of the store that a task loads or writes for; the highest: it does so for none.
    @TaskLocal static var store = UInt64.max

    /// By place, and then by a number of their own: a store that writes again may be here twice.
    private(set) var entries: [String: [UInt64: Entry]] = [:]
    private var last: UInt64 = 0

    mutating func nextNumber() -> UInt64 {
        last += 1
        return last
    }

    mutating func add(_ entry: Entry, at place: String) -> UInt64 {
        let id = nextNumber()
        entries[place, default: [:]][id] = entry
        return id
    }

    func newest(at place: String, before store: UInt64) -> (id: UInt64, entry: Entry)? {
        entries[place]?.filter { $0.value.store < store }.max { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns what is to be let go of outside the lock.
    mutating func remove(_ id: UInt64, at place: String) -> Entry? {
        defer { if entries[place]?.isEmpty == true { entries[place] = nil } }
        return entries[place]?.removeValue(forKey: id)
    }

    // MARK: - For the whole process

    /// Notes that a store writes to a place; returns what to take it out by.
    static func enter(_ store: UInt64, at place: String, flush: @escaping @Sendable () async -> Void) -> UInt64 {
        shared.withLock { $0.add(Entry(store: store, flush: flush), at: place) }
    }

    static func leave(_ id: UInt64, at place: String) { _ = shared.withLock { $0.remove(id, at: place) } }

    /// Waits until those made before a store have written what is due at a place, or the task is cancelled.
    static func settle(at place: String?, before store: UInt64 = FluxUnwritten.store) async {
        guard let place else { return }
        while let (id, entry) = shared.withLock({ $0.newest(at: place, before: store) }) {
            await entry.flush()
            if _Concurrency.Task.isCancelled { return }
            leave(id, at: place)
        }
    }
}
