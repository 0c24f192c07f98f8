import ArgumentParser
import Foundation

struct TableCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "table",
        abstract: "Prints what a run has written as Markdown."
    )

    @Option(help: "What `--json` has written.", completion: .file(extensions: ["json"]))
    var json: String

    func run() throws {
        let report = try Report(contentsOf: json)
        print("\(report.machine.text); \(report.rounds) rounds of \(report.seconds) s.\n")
        print("| | workload | cell | median | min | max | × floor |")
        print("|---|---|---|--:|--:|--:|--:|")
        for workload in report.workloads { print(workload.markdown.escaped) }
        print("\n| bound | reached | |\n|---|---|---|")
        for workload in report.workloads {
            for bound in workload.bounds {
                print("| \(workload.name) | \(bound.text.escaped) | \(bound.isMet ? "kept" : "**missed**") |")
            }
        }
    }
}

extension Findings {
    fileprivate var markdown: String {
        let rows = series.enumerated().map { index, row in
            let ratio = row.name == floor ? "floor" : row.ratio?.short ?? ""
            let head = index == 0 ? "\(name) | \(title)" : " | "
            let numbers = [row.median, row.min, row.max].map { "\($0.short) \(row.unit)" }.joined(separator: " | ")
            return "| \(head) | \(row.name.hasPrefix("Flux") ? "**\(row.name)**" : row.name) | \(numbers) | \(ratio) |"
        }
        return rows.joined(separator: "\n")
    }
}

extension String {
    /// Escaped, because names such as `Mutex<State>` are not HTML.
    fileprivate var escaped: String { replacingOccurrences(of: "<", with: "&lt;") }
}
