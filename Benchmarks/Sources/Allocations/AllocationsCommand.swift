import ArgumentParser
import Foundation
import Workbench

/// Counts the allocations of a dispatch, once everything has grown to its size.
@main
struct AllocationsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "allocations",
        abstract: "Counts the allocations per action in steady state, with a subscriber."
    )

    @Option(help: "How many actions to count over.")
    var actions = 1_000_000

    @Flag(help: "End with status 1 if an action allocates, or if waking the queue takes more than two allocations.")
    var check = false

    func validate() throws {
        if actions < 10_000 { throw ValidationError("It takes 10000 actions or more to see a steady state.") }
    }

    func run() throws {
        try calibrate()
        var isMissed = false
        for scenario in Scenario.all {
            let perAction = try scenario.allocationsPerAction(actions)
            let isMet = perAction <= scenario.limit
            print("\(isMet ? "kept  " : "MISSED") \(String(format: "%.4f", perAction)) per action: \(scenario.name)")
            if !isMet { isMissed = true }
        }
        if check && isMissed { throw ExitCode(1) }
    }
}
