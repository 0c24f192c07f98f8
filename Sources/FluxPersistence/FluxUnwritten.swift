#if canImport(FluxCore)
    import FluxCore
#endif

/// The stores of this process that have something to write, by the place it goes to, for as long as they write it.
///
/// Who loads from a place waits for those that come before it: the older ones, and of what a store's own code opens, all of that
/// before the store. Each store has a place in that one order, so no two wait for each other. One that has written all, or never
/// will, is in here no longer.
///
/// | input    | some that come before, at the place | none            |
/// |----------|-------------------------------------|-----------------|
/// | `add`    | one more                            | the first       |
/// | `newest` | the one made last of them, below a number | nil       |
/// | `remove` | one less; the last: no key          | nothing         |
nonisolated struct FluxUnwritten: Sendable {
    /// The number of a store, behind those of the stores in whose code it was opened, the outermost first.
    typealias Path = [UInt64]

    /// A load or a write of a store, for as long as the user's code runs for it.
    final class Scope: Sendable {
        let path: Path
        /// Of a load.
        let mark: FluxCancellationFlag?
        private let hasEnded = FluxLock(false)

        init(_ path: Path, _ mark: FluxCancellationFlag?) { (self.path, self.mark) = (path, mark) }

        var isOver: Bool { hasEnded.withLock { $0 } }

        func end() { hasEnded.withLock { $0 = true } }
    }

    /// One that writes, or will.
    struct Entry: Sendable {
        let store: Path
        /// Waits until it has written all, or never will.
        let flush: @Sendable () async -> Void
    }

    static let shared = FluxLock(FluxUnwritten())
    /// What the task runs for; a task that goes on by itself inherits it for good.
    @TaskLocal static var scope: Scope?
    /// What the task runs for, as long as that lasts.
    static var running: Scope? { scope.flatMap { $0.isOver ? nil : $0 } }
    /// Whose code that is; empty: that of no store.
    static var path: Path { running?.path ?? [] }

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

    func newest(at place: String, before store: Path, below last: UInt64) -> (key: UInt64, value: Entry)? {
        entries[place]?.filter { $0.key < last && Self.comes($0.value.store, before: store) }.max { $0.key < $1.key }
    }

    /// The one order of all: the older before the newer, and what was opened in a store's code before the store.
    static func comes(_ one: Path, before other: Path) -> Bool {
        for (one, other) in zip(one, other) where one != other { return one < other }
        return one.count > other.count
    }

    /// Returns what is to be let go of outside the lock.
    mutating func remove(_ id: UInt64, at place: String) -> Entry? {
        defer { if entries[place]?.isEmpty == true { entries[place] = nil } }
        return entries[place]?.removeValue(forKey: id)
    }

    // MARK: - For the whole process

    /// Notes that a store writes to a place; returns what to take it out by.
    static func enter(_ store: Path, at place: String, flush: @escaping @Sendable () async -> Void) -> UInt64 {
        shared.withLock { $0.add(Entry(store: store, flush: flush), at: place) }
    }

    static func leave(_ id: UInt64, at place: String) { _ = shared.withLock { $0.remove(id, at: place) } }

    /// Runs code of the user's for a store.
    static func run<Result>(
        _ store: Path, as mark: FluxCancellationFlag? = nil, _ body: () async throws -> Result
    ) async rethrows -> Result {
        let scope = Scope(store, mark)
        defer { scope.end() }
        return try await $scope.withValue(scope) { try await body() }
    }

    /// Waits until those that come before a store have written what is due at a place, or the task is cancelled.
    static func settle(at place: String?, before store: Path = path) async {
        guard let place else { return }
        // Each once: one that goes on with what came meanwhile stays, for others wait for that.
        var last = UInt64.max
        while let (id, entry) = shared.withLock({ $0.newest(at: place, before: store, below: last) }) {
            await entry.flush()
            last = id
        }
    }
}
