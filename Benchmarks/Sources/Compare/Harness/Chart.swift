import Foundation

/// Horizontal bars, one group for each workload, each as long as its ratio to the group's floor.
///
/// It loads nothing from elsewhere, and takes its colours from the reader's light or dark scheme.
struct Chart {
    private static let width = 760.0
    private static let labelWidth = 230.0
    /// The most times the floor that a bar shows; a longer one is cut, and its number gives the real length.
    private static let cut = 10.0
    private static let barHeight = 16.0

    private var body = ""
    private var y = 0.0

    init(_ report: Report) {
        for row in Row.all {
            guard let findings = report.workloads.first(where: { $0.name == row.workload }) else { continue }
            draw(findings, row)
        }
        text(report.machine.text, x: 0, y: y + 12, style: "note")
        y += 20
    }

    var svg: String {
        """
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(y))" role="img" \
        aria-label="FluxCore beside other ways to hold state, in nanoseconds">
        <style>
        text { font: 13px system-ui, sans-serif; fill: #24292f; }
        .title { font-weight: 600; }
        .note { font-size: 11px; fill: #6e7781; }
        .own { fill: #d9480f; }
        .other { fill: #afb8c1; }
        @media (prefers-color-scheme: dark) {
        text { fill: #e6edf3; }
        .note { fill: #8b949e; }
        .own { fill: #ff8a4c; }
        .other { fill: #57606a; }
        }
        </style>
        \(body)</svg>

        """
    }

    private mutating func draw(_ findings: Findings, _ row: Row) {
        let bars = findings.series.filter { $0.name.hasSuffix(row.suffix) }
        guard bars.contains(where: { $0.name == findings.floor }) else { return }
        let longest = min(bars.map { $0.ratio ?? 1 }.max() ?? 1, Self.cut)
        let scale = (Self.width - Self.labelWidth - 150) / longest
        text(row.title, x: 0, y: y + 14, style: "title")
        y += 22
        for bar in bars {
            let name = String(bar.name.dropLast(row.suffix.count))
            let times = bar.ratio ?? 1
            let length = max(min(times, longest) * scale, 1)
            text(name, x: 10, y: y + 13)
            body += """
                <rect class="\(name.hasPrefix("Flux") ? "own" : "other")" x="\(Self.labelWidth)" y="\(y)" \
                width="\(String(format: "%.1f", length))" height="\(Self.barHeight)" rx="2"/>

                """
            let value = "\(bar.median.short) \(bar.unit)" + (bar.name == findings.floor ? "" : " · \(times.short) ×")
            text(times > longest ? "… " + value : value, x: Self.labelWidth + length + 6, y: y + 13)
            y += Self.barHeight + 4
        }
        y += 12
    }

    private mutating func text(_ text: String, x: Double, y: Double, style: String? = nil) {
        let escaped = text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
        let style = style.map { " class=\"\($0)\"" } ?? ""
        body += "<text\(style) x=\"\(String(format: "%.1f", x))\" y=\"\(y)\">\(escaped)</text>\n"
    }
}

/// A group of the chart.
private struct Row {
    let workload: String
    let title: String
    /// Selects only the readings whose names end with it.
    var suffix = ""

    /// The few that matter most for a choice.
    static let all = [
        Row(workload: "w1", title: "A dispatch, no subscriber"),
        Row(workload: "w2", title: "A dispatch with one subscriber, until it has been called"),
        Row(workload: "w3", title: "Calling one of 1,000 subscribers"),
        Row(workload: "w1s", title: "An event, from fire to applied"),
        Row(workload: "w8", title: "From a dispatch to the handler, median, everything asleep before", suffix: ", p50"),
    ]
}
