import ArgumentParser
import Foundation

struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Prints the side-by-side table.",
        discussion: """
            The cells of a workload take turns, A B A B, each round in a process of its own. A wrong total ends the run \
            with an error.
            """
    )

    @Option(help: "How often each cell is measured.")
    var rounds = 5

    @Option(help: "How long a cell is measured in a round, in seconds.")
    var seconds = 0.5

    @Option(help: "The workloads to run, with commas between them. Default: all.", transform: Self.workloads)
    var only: [Workload] = Workload.all

    @Option(help: "Where to write everything that was measured.", completion: .file(extensions: ["json"]))
    var json: String?

    @Flag(help: "End with status 1 where a bound is missed.")
    var check = false

    @Flag(help: "One short round that checks the counts and times nothing.")
    var smoke = false

    func validate() throws {
        if rounds < 1 { throw ValidationError("There must be at least one round.") }
        if !(seconds > 0 && seconds <= 600) { throw ValidationError("A round takes more than 0 and at most 600 s.") }
        if smoke && (check || json != nil) { throw ValidationError("--smoke times nothing to check or to write.") }
    }

    func run() throws {
        if smoke { return try runSmoke() }
        var report = Report(machine: .current(), rounds: rounds, seconds: seconds)
        print(report.machine.text)
        for workload in only {
            let watch = CalmWatch()
            let rounds = try measure(workload)
            let result = try Findings(workload, rounds: rounds, calm: watch.calm)
            print("\n" + result.text)
            report.workloads.append(result)
        }
        if let json { try report.write(to: json) }
        let missed = report.workloads.flatMap { workload in
            workload.bounds.filter { !$0.isMet }.map { "\(workload.name): \($0.text)" }
        }
        let distrusted = report.workloads.filter { $0.calm?.isToDistrust == true }.map(\.name)
        if !distrusted.isEmpty {
            print("\nNot to be trusted, for others used the machine: \(distrusted.joined(separator: ", "))")
        }
        if !missed.isEmpty { print("\nMissed:\n" + missed.map { "    " + $0 }.joined(separator: "\n")) }
        if check && !missed.isEmpty { throw ExitCode(1) }
    }

    private func measure(_ workload: Workload) throws -> [[Reading]] {
        try (0..<rounds).map { _ in
            try workload.cells.indices.flatMap { try Cell.runApart(workload, cell: $0, seconds: seconds) }
        }
    }

    private func runSmoke() throws {
        for workload in only {
            for index in workload.cells.indices { _ = try Cell.runApart(workload, cell: index, seconds: 0) }
            print("\(workload.name): \(workload.cells.count) cells, counts right")
        }
    }

    private static func workloads(_ names: String) throws -> [Workload] {
        try names.split(separator: ",").map { name in
            guard let workload = Workload.all.first(where: { $0.name == name }) else {
                let known = Workload.all.map(\.name).joined(separator: ", ")
                throw ValidationError("There is no workload \(name); there are \(known).")
            }
            return workload
        }
    }
}
