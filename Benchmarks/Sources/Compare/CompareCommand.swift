import ArgumentParser

@main
struct CompareCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare",
        abstract: "Measures FluxCore side by side with what one would use instead.",
        subcommands: [RunCommand.self, TableCommand.self, ChartCommand.self, CellCommand.self],
        defaultSubcommand: RunCommand.self
    )
}
