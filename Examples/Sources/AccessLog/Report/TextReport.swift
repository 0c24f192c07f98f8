/// A summary for people, as aligned columns.
public struct TextReport: Sendable {
    private let summary: AccessSummary
    private let limit: Int

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - summary: The summary to report.
    ///   - limit: The number of busiest paths to list.
    public init(_ summary: AccessSummary, limit: Int) {
        self.summary = summary
        self.limit = limit
    }

    /// The lines of the report.
    public var lines: [String] {
        totals + [""] + statusClasses + [""] + busiestPaths
    }

    private var totals: [String] {
        var table = Table([.left, .right])
        table.add("lines", summary.lines.grouped)
        table.add("malformed", summary.malformed.grouped)
        table.add("requests", summary.requests.grouped)
        table.add("bytes", summary.bytes.grouped)
        return table.lines
    }

    private var statusClasses: [String] {
        var table = Table([.left, .right, .right])
        table.add("status", "requests", "share")
        for (index, count) in summary.statusClasses.enumerated() where index > 0 || count > 0 {
            table.add(AccessSummary.className(index), count.grouped, count.share(of: summary.requests))
        }
        return table.lines
    }

    private var busiestPaths: [String] {
        var table = Table([.right, .right, .left])
        table.add("requests", "share", "path")
        for entry in summary.paths.busiest(limit) {
            table.add(entry.count.grouped, entry.count.share(of: summary.requests), entry.path.harmless)
        }
        if summary.withoutPath > 0 {
            table.add(summary.withoutPath.grouped, summary.withoutPath.share(of: summary.requests), "(without a path)")
        }
        let missed = summary.paths.forgotten.grouped
        let note = "There are too many paths to count them all: each count may be too low by up to \(missed)."
        return table.lines + (summary.paths.forgotten == 0 ? [] : [note])
    }
}

extension AccessSummary {
    /// The name of an index in ``statusClasses``.
    static func className(_ index: Int) -> String {
        index == 0 ? "other" : "\(index)xx"
    }
}
