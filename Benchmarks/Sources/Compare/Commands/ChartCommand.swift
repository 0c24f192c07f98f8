import ArgumentParser
import Foundation

struct ChartCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chart",
        abstract: "Draws the rows that matter most from what a run has written."
    )

    @Option(help: "What `--json` has written.")
    var json: String

    @Option(help: "The SVG to write.")
    var output: String

    func run() throws {
        let report = try JSONDecoder().decode(Report.self, from: Data(contentsOf: URL(fileURLWithPath: json)))
        _ = report
    }
}
