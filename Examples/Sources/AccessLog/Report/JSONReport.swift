#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A summary for programs, as JSON.
public struct JSONReport: Encodable, Sendable {
    private struct Path: Encodable {
        var path: String
        var requests: Int
        var missed: Int
    }

    private let lines: Int
    private let malformed: Int
    private let requests: Int
    private let bytes: Int
    private let statusClasses: [String: Int]
    private let busiestPaths: [Path]
    private let withoutPath: Int

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - summary: The summary to report.
    ///   - limit: The number of busiest paths to list.
    public init(_ summary: AccessSummary, limit: Int) {
        lines = summary.lines
        malformed = summary.malformed
        requests = summary.requests
        bytes = summary.bytes
        let classes = summary.statusClasses.enumerated().map { (AccessSummary.className($0), $1) }
        statusClasses = Dictionary(uniqueKeysWithValues: classes)
        busiestPaths = summary.paths.busiest(limit).map { Path(path: $0.path, requests: $0.count, missed: $0.missed) }
        withoutPath = summary.withoutPath
    }

    /// Returns the report as one line, with its keys in alphabetical order.
    public func line() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
}
