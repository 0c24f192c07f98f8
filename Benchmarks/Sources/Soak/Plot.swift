import Foundation

/// A panel for each meter, with its readings over time.
///
/// It loads nothing from elsewhere, and takes its colours from the reader's light or dark scheme.
struct Plot {
    private static let width = 760.0
    private static let left = 90.0
    private static let panel = 110.0
    private static let gap = 34.0

    private var body = ""
    private var y = 0.0
    private let report: Report

    init(_ report: Report) {
        self.report = report
        for meter in Meter.allCases where report.samples.allSatisfy({ $0.readings[meter] != nil }) { draw(meter) }
        let length = String(format: "%.1f", report.samples.last?.minutes ?? 0)
        text(
            "\(length) minutes, \(report.rounds) rounds; the first third, shaded, is for warming up", x: 0, y: y + 12,
            "note")
        y += 20
    }

    var svg: String {
        """
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(y))" role="img" \
        aria-label="Memory, threads and descriptors of a long run">
        <style>
        text { font: 13px system-ui, sans-serif; fill: #24292f; }
        .title { font-weight: 600; }
        .note { font-size: 11px; fill: #6e7781; }
        .frame { fill: none; stroke: #d0d7de; }
        .warm { fill: #eaeef2; }
        .line { fill: none; stroke: #d9480f; stroke-width: 1.5; }
        @media (prefers-color-scheme: dark) {
        text { fill: #e6edf3; }
        .note { fill: #8b949e; }
        .frame { stroke: #30363d; }
        .warm { fill: #21262d; }
        .line { stroke: #ff8a4c; }
        }
        </style>
        \(body)</svg>

        """
    }

    private mutating func draw(_ meter: Meter) {
        let values = report.samples.map { $0.readings[meter] ?? 0 }
        // The scale begins at zero, so that a value that hardly changes looks like it.
        let top = max((values.max() ?? 1) * 1.15, 1)
        let length = max(report.samples.last?.minutes ?? 1, 0.01)
        let width = Self.width - Self.left - 4
        text(meter.name, x: Self.left, y: y + 14, "title")
        let base = y + 22 + Self.panel
        body += rectangle("warm", width: width / 3)
        body += rectangle("frame", width: width)
        for (value, height) in [(top, 22.0 + 10), (0, 22 + Self.panel)] {
            let label = String(format: "%.0f", value) + (meter.unit.isEmpty ? "" : " " + meter.unit)
            text(label, x: 0, y: y + height, "note")
        }
        let points = zip(report.samples, values).map { sample, value in
            String(format: "%.1f,%.1f", Self.left + sample.minutes / length * width, base - value / top * Self.panel)
        }
        body += "<polyline class=\"line\" points=\"\(points.joined(separator: " "))\"/>\n"
        y = base + Self.gap - 22
    }

    private func rectangle(_ style: String, width: Double) -> String {
        """
        <rect class="\(style)" x="\(Self.left)" y="\(String(format: "%.1f", y + 22))" \
        width="\(String(format: "%.1f", width))" height="\(Self.panel)"/>

        """
    }

    private mutating func text(_ text: String, x: Double, y: Double, _ style: String) {
        body += "<text class=\"\(style)\" x=\"\(x)\" y=\"\(String(format: "%.1f", y))\">\(text)</text>\n"
    }
}
