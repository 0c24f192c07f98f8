/// Counts how often each path occurs, in bounded memory however many paths there are.
///
/// Whoever scans a server for holes asks for millions of paths, each once. So when there are too many, the half with the
/// lowest counts is forgotten (the *lossy counting* of Manku and Motwani, with the size of the table as the bound). A
/// path that comes again after that starts anew, and remembers what it may have lost: at most ``forgotten`` requests.
/// Every path that was asked for more often than that is in the table; and as long as nothing was forgotten, all are.
public struct PathCounts: Sendable, Equatable {
    /// The count of one path.
    public struct Entry: Sendable, Equatable {
        /// The path, as the server recorded it.
        public var path: String
        /// How often it was counted.
        public var count: Int
        /// How many more there may have been.
        public var missed: Int
    }

    private struct Count: Sendable, Equatable {
        var value: Int
        var missed: Int

        var upperBound: Int { value + missed }
    }

    /// The most requests that a path can have had which is not in the table; 0 if all paths are.
    public private(set) var forgotten = 0

    private var counts: [String: Count] = [:]
    private var size = 0
    private let maximumCount: Int
    private let maximumSize: Int

    /// Makes an empty table.
    ///
    /// - Parameters:
    ///   - maximumCount: How many paths to keep at most.
    ///   - maximumSize: How many bytes these may take together.
    public init(maximumCount: Int = 50_000, maximumSize: Int = 8 << 20) {
        self.maximumCount = maximumCount
        self.maximumSize = maximumSize
    }

    /// Counts a path once.
    ///
    /// - Complexity: O(1) amortised.
    public mutating func add(_ path: String) {
        let known = counts.count
        counts[path, default: Count(value: 0, missed: forgotten)].value += 1
        guard counts.count > known else { return }
        size += path.utf8.count
        while counts.count > maximumCount || size > maximumSize { forgetHalf() }
    }

    /// The paths with the highest counts, highest first; those with the same count by name.
    ///
    /// - Complexity: O(*n* · *m*) for *n* paths in the table and a `limit` of *m*, but near O(*n*) where few are busy.
    public func busiest(_ limit: Int) -> [Entry] {
        var top: [Entry] = []
        for (path, count) in counts {
            let entry = Entry(path: path, count: count.value, missed: count.missed)
            if top.count >= limit, top.last.map({ !entry.isBusier(than: $0) }) ?? true { continue }
            top.insert(entry, at: top.firstIndex { entry.isBusier(than: $0) } ?? top.endIndex)
            if top.count > limit { top.removeLast() }
        }
        return top
    }

    private mutating func forgetHalf() {
        let bounds = counts.values.map(\.upperBound).sorted()
        forgotten = max(forgotten, bounds[(bounds.count - 1) / 2])
        counts = counts.filter { $0.value.upperBound > forgotten }
        size = counts.keys.reduce(0) { $0 + $1.utf8.count }
    }
}

extension PathCounts.Entry {
    fileprivate func isBusier(than other: Self) -> Bool {
        (other.count, path) < (count, other.path)
    }
}
