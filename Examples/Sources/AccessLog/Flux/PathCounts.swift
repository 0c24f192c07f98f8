/// Counts how often each path occurs, in bounded memory regardless of how many paths there are.
///
/// Scanners that probe a server request millions of paths, each once. So when there are too many paths, the half with
/// the lowest counts is dropped (the *lossy counting* of Manku and Motwani, bounded by the size of the table). A path
/// that occurs again after that gets a new count, which records how much it may have lost: at most ``forgotten``
/// requests. Every path that was requested more often than that is in the table. As long as nothing has been dropped,
/// all paths are.
public struct PathCounts: Sendable, Equatable {
    /// The count of one path.
    public struct Entry: Sendable, Equatable {
        /// The path, as the server recorded it.
        public var path: String
        /// How often it was counted.
        public var count: Int
        /// How many more occurrences there may have been.
        public var missed: Int
    }

    private struct Count: Sendable, Equatable {
        var value: Int
        var missed: Int

        var upperBound: Int { value + missed }
    }

    /// The maximum number of requests for a path that is not in the table; 0 if all paths are.
    public private(set) var forgotten = 0

    private var counts: [String: Count] = [:]
    private var size = 0
    private let maximumCount: Int
    private let maximumSize: Int

    /// Creates an empty table.
    ///
    /// - Parameters:
    ///   - maximumCount: The maximum number of paths to keep.
    ///   - maximumSize: The maximum number of bytes of all these paths together.
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

    /// Returns the paths with the highest counts, highest first; paths with the same count are ordered by name.
    ///
    /// - Complexity: O(*n* · *m*) for *n* paths in the table and a `limit` of *m*, but close to O(*n*) if few are busy.
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
