#if canImport(FluxCore)
    import FluxCore
#endif

/// The stores of this process that have pending writes, by place, until these are written.
///
/// A load from a place waits for the stores that come before its own in one order of all stores: older stores come
/// first, and whatever a store's own code opens comes before that store. Each store has one position in this order, so
/// no two wait for each other. A store is removed once it has written everything, or never will.
///
/// | input    | the place has entries                             | it has none |
/// |----------|---------------------------------------------------|-------------|
/// | `add`    | one more                                          | the first   |
/// | `newest` | of those that come before the store and have a    | nil         |
/// |          | number below the given one, the highest; or nil   |             |
/// | `remove` | one less; with the last, the place is removed too | nothing     |
nonisolated struct FluxUnwritten: Sendable {
    /// The number of a store, after the numbers of the stores in whose code it was opened, the outermost first.
    typealias Rank = [UInt64]

    /// A load or a write of a store, for as long as the user's code runs for it.
    final class Scope: Sendable {
        /// The store, and the flag of the load or nil for a write; nil once it is over.
        let running: FluxLock<(rank: Rank, flag: FluxCancellationFlag?)?>

        init(_ rank: Rank, _ flag: FluxCancellationFlag?) { running = FluxLock((rank, flag)) }
    }

    /// A store that writes, or will.
    struct Entry: Sendable {
        let store: Rank
        /// Waits until the store has written everything, or never will.
        let flush: @Sendable () async -> Void
    }

    static let shared = FluxLock(FluxUnwritten())
    /// The load or write that the task runs for; a task created with `Task { … }` inherits it permanently.
    @TaskLocal static var scope: Scope?
    /// The load or write that the task runs for, unless that is over.
    static var running: (rank: Rank, flag: FluxCancellationFlag?)? { scope?.running.withLock { $0 } }
    /// The store whose load or write the task runs for; empty: none.
    static var rank: Rank { running?.rank ?? [] }

    /// By place, and then by a number for each entry: a store that writes again may be here twice.
    private(set) var entries: [String: [UInt64: Entry]] = [:]
    private var last: UInt64 = 0

    mutating func nextNumber() -> UInt64 {
        last += 1
        return last
    }

    /// Adds a store that writes to a place, and returns the number to remove it by.
    mutating func add(_ store: Rank, at place: String, flush: @escaping @Sendable () async -> Void) -> UInt64 {
        let id = nextNumber()
        entries[place, default: [:]][id] = Entry(store: store, flush: flush)
        return id
    }

    func newest(at place: String, before store: Rank, below last: UInt64) -> (key: UInt64, value: Entry)? {
        entries[place]?.filter { $0.key < last && Self.comes($0.value.store, before: store) }.max { $0.key < $1.key }
    }

    /// Whether a rank comes before another: an older store before a newer one, and a nested store before its outer one.
    static func comes(_ one: Rank, before other: Rank) -> Bool {
        for (one, other) in zip(one, other) where one != other { return one < other }
        return one.count > other.count
    }

    /// Removes an entry and returns it, to be released outside the lock.
    mutating func remove(_ id: UInt64, at place: String) -> Entry? {
        defer { if entries[place]?.isEmpty == true { entries[place] = nil } }
        return entries[place]?.removeValue(forKey: id)
    }

    // MARK: - For the whole process

    /// Runs the user's code for a store.
    static func run<Result>(
        _ store: Rank, as flag: FluxCancellationFlag? = nil, _ body: () async throws -> Result
    ) async rethrows -> Result {
        let scope = Scope(store, flag)
        defer { _ = scope.running.withLock { Swift.exchange(&$0, with: nil) } }
        return try await $scope.withValue(scope) { try await body() }
    }

    /// Waits until the stores that come before a store have written what was pending at a place, or the task is
    /// cancelled.
    static func settle(at place: String?, before store: Rank = rank) async {
        guard let place else { return }
        // Waits for each entry once. A store that then writes newer changes stays registered, because other loads wait
        // for those.
        var last = UInt64.max
        while let (id, entry) = shared.withLock({ $0.newest(at: place, before: store, below: last) }) {
            await entry.flush()
            last = id
        }
    }
}
