import ArgumentParser
import Foundation
import ProgramTesting
import Terminal

@main
struct BoardLoad: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "board-load",
        abstract: "Puts board servers under load, one after another, and compares them.",
        discussion: """
            It starts each program, connects watching clients, a few of which read nothing, and sends commands at a \
            steady rate. All clients that read must end on the same revision and the same board. A delay is the time \
            from when a command was due until one client has its change, or a state with it; all clients count.

            The exit status is 1 if clients disagree or a program fails or, with --check, if the first program is \
            slower or larger than the second.
            """)

    @Argument(help: "The programs: names of programs beside this one, or paths.")
    var programs = ["live-board", "bare-board"]
    @Option(help: "How many clients watch.") var clients = 2_000
    @Option(help: "How many of them read nothing.") var silent = 5
    @Option(parsing: .upToNextOption, help: "How many boards they share, one measurement each.") var boards = [1, 200]
    @Option(help: "How many commands are sent per second.") var rate = 200
    @Option(help: "For how many seconds commands are sent.") var seconds = 10
    @Option(help: "How often each program is measured, in turn.") var rounds = 2
    @Flag(help: "Fail if the first program's 99th percentile or memory is above 1.1 times the second's.")
    var check = false

    func validate() throws {
        for (name, value, range) in [
            ("clients", clients, 1...9_000), ("rate", rate, 1...5_000), ("seconds", seconds, 1...20),
            ("rounds", rounds, 1...20), ("silent", silent, 0...max(0, clients - 1)),
        ] where !range.contains(value) {
            throw ValidationError("--\(name) must be from \(range.lowerBound) to \(range.upperBound).")
        }
        if boards.contains(where: { !(1...1_000).contains($0) }) {
            throw ValidationError("--boards must be from 1 to 1000.")
        }
        if check && programs.count != 2 { throw ValidationError("--check compares two programs.") }
    }

    func run() async throws {
        raiseFileLimit()
        print(
            row(
                "boards", "program",
                ["commands/s", "p50 ms", "p99 ms", "skipped", "KB/client", "held MB", "most MB", "CPU s"]))
        var isGood = true
        for boards in boards {
            var summaries = programs.map { Summary(name: URL(filePath: $0).lastPathComponent) }
            for _ in 0..<rounds {
                for (number, program) in programs.enumerated() {
                    let load = Load(
                        program: program.contains("/") ? URL(filePath: program) : Command.built(program),
                        settings: Load.Settings(
                            clients: clients, silent: silent, boards: boards, rate: rate, seconds: seconds))
                    do {
                        let outcome = try await load.run()
                        for complaint in Set(outcome.findings.complaints).sorted().prefix(10) {
                            complain("\(summaries[number].name): \(complaint)")
                        }
                        for (reason, count) in outcome.sent.refusals {
                            complain("\(summaries[number].name): \(count) commands were refused: \(reason)")
                        }
                        isGood = isGood && outcome.findings.complaints.isEmpty && outcome.sent.refused == 0
                        summaries[number].add(outcome)
                    } catch {
                        complain("\(error)")
                        throw ExitCode(1)
                    }
                }
            }
            for summary in summaries { print(row("\(boards)", summary.name, summary.columns)) }
            if summaries.count == 2 {
                print(row("", "ratio", summaries[0].ratios(to: summaries[1])))
                if check && !summaries[0].isAsGood(as: summaries[1]) {
                    complain("\(summaries[0].name) is slower or larger than \(summaries[1].name)")
                    isGood = false
                }
            }
        }
        if !isGood { throw ExitCode(1) }
    }

    private func row(_ boards: String, _ name: String, _ columns: [String]) -> String {
        func right(_ text: String, _ width: Int) -> String {
            String(repeating: " ", count: max(0, width - text.count)) + text
        }
        let head = right(boards, 6) + "  " + name + String(repeating: " ", count: max(0, 12 - name.count))
        return head + columns.map { right($0, 11) }.joined()
    }

    private func complain(_ text: String) { FileHandle.standardError.write(Data("board-load: \(text)\n".utf8)) }
}

/// All rounds of one program: the delays of all of them, and the means of the other figures.
struct Summary {
    let name: String
    private var delays = Delays()
    private var rounds = 0.0
    private var sums = (rate: 0.0, refused: 0, skipped: 0.0, perClient: 0.0, held: 0.0, most: 0.0, processor: 0.0)

    init(name: String) { self.name = name }

    mutating func add(_ outcome: Load.Outcome) {
        rounds += 1
        delays.add(outcome.findings.delays)
        sums.rate += Double(outcome.sent.answered) / outcome.sent.seconds
        sums.refused += outcome.sent.refused
        sums.skipped += Double(outcome.findings.skipped)
        sums.perClient += outcome.memoryPerClient / 1_024
        sums.held += Double(outcome.heldMemory) / 1_048_576
        sums.most += Double(outcome.mostMemory) / 1_048_576
        sums.processor += outcome.processor
    }

    private var values: [Double] {
        [sums.rate / rounds, delays.quantile(0.5), delays.quantile(0.99), sums.skipped / rounds]
            + [sums.perClient, sums.held, sums.most, sums.processor].map { $0 / rounds }
    }

    var columns: [String] {
        values.map { $0.formatted(.number.precision(.fractionLength(1))) }
            + (sums.refused > 0 ? ["  \(sums.refused) refused"] : [])
    }

    func ratios(to other: Summary) -> [String] {
        zip(values, other.values).map { $1 == 0 ? "-" : ($0 / $1).formatted(.number.precision(.fractionLength(2))) }
    }

    func isAsGood(as other: Summary) -> Bool {
        delays.quantile(0.99) <= other.delays.quantile(0.99) * 1.1
            && sums.perClient / rounds <= other.sums.perClient / other.rounds * 1.1
            && sums.held / rounds <= other.sums.held / other.rounds * 1.1
    }
}
