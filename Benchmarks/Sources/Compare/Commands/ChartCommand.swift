import ArgumentParser
import Foundation

struct ChartCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chart",
        abstract: "Draws the rows that matter most from what a run has written."
    )

    @Option(help: "What `--json` has written.", completion: .file(extensions: ["json"]))
    var json: String

    @Option(help: "The SVG to write.", completion: .file(extensions: ["svg"]))
    var output: String

    func run() throws {
        let report = try Report(contentsOf: json)
        try Data(Chart(report).svg.utf8).write(to: URL(fileURLWithPath: output))
    }
}
