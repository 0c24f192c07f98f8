#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// The command line interface of a list of scenarios.
public enum Runner {
    private static let usage = """
        interleavings [--list] [--scenario NAME] [--seconds N] [--cut-off N] [--bound N] [--random N] [--seed N]
            [--processor N] [--replay SCHEDULE]

        Without a scenario it explores all of them, two at a time, each in a process of its own.
          --list       names the scenarios
          --scenario   explores one alone
          --bound      the maximum number of preemptions of a systematic schedule (3)
          --seconds    how long schedules with more than two preemptions may take, for each scenario (60)
          --cut-off    how long those with two at most may take (120)
          --random     how many random runs follow, from --seed (500, 1)
          --processor  pins it to one processor, numbered from 0, where it is twice as fast
          --replay     replays one schedule from a report, and prints it step by step
        """

    /// Carries out the arguments, and ends the process.
    public static func main(_ scenarios: [Scenario]) -> Never {
        decideHashing()
        let arguments = Array(CommandLine.arguments.dropFirst())
        var limits = Limits()
        var (name, turns): (String?, [(Int, Int)]?) = (nil, nil)
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--list" {
                for scenario in scenarios { print("\(scenario.name): \(scenario.title)") }
                exit(0)
            }
            guard let value = rest.popFirst() else { fail(usage) }
            switch argument {
            case "--scenario": name = value
            case "--replay": turns = schedule(argument, value)
            case "--seconds": limits.seconds = number(argument, value)
            case "--cut-off": limits.cutOff = number(argument, value)
            case "--bound": limits.bound = number(argument, value)
            case "--random": limits.random = number(argument, value)
            case "--processor": Processor.keep(number(argument, value))
            case "--seed": limits.seed = number(argument, value)
            default: fail(usage)
            }
        }
        guard let name else { exit(all(scenarios, arguments) ? 0 : 1) }
        guard let scenario = scenarios.first(where: { $0.name == name }) else { fail("there is no scenario \(name)") }
        Report.scenario = name
        SwiftTasks.capture()
        Report.catchCrashes()
        if let turns { replay(scenario, turns) }
        exit(explore(scenario, limits) ? 0 : 1)
    }

    /// Restarts the process with deterministic hashing, because random hash seeds would change the schedule each time.
    private static func decideHashing() {
        if getenv("SWIFT_DETERMINISTIC_HASHING") != nil { return }
        setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
        var pointers: [UnsafeMutablePointer<CChar>?] = CommandLine.arguments.map { strdup($0) } + [nil]
        execvp(CommandLine.arguments[0], &pointers)
        fail("\(CommandLine.arguments[0]) could not be restarted (\(errno))")
    }

    private static func number<Number: LosslessStringConvertible & Comparable & ExpressibleByIntegerLiteral>(
        _ option: String, _ value: String
    ) -> Number {
        guard let number = Number(value), number >= 0 else { fail("\(option) takes a number from 0, not '\(value)'") }
        return number
    }

    private static func schedule(_ option: String, _ value: String) -> [(Int, Int)] {
        // What a report says of a run without a turn.
        if value == "straight" { return [] }
        return value.split(separator: ",", omittingEmptySubsequences: false).map { turn in
            let parts = turn.split(separator: ":", omittingEmptySubsequences: false).map { Int($0) }
            guard parts.count == 2, let choice = parts[0], let thread = parts[1], choice >= 0, thread >= 0 else {
                fail("\(option) takes a schedule such as 3:1,7:0 from a report, not '\(value)'")
            }
            return (choice, thread)
        }
    }

    private static func fail(_ message: String) -> Never {
        print(message)
        exit(2)
    }

    private static func explore(_ scenario: Scenario, _ limits: Limits) -> Bool {
        let result = Explorer.shared.explore(scenario, limits)
        let counts = result.systematic.map { "\($0.bound): \($0.count)\($0.isAll ? "" : " (not all)")" }
        let diverged = result.diverged == 0 ? "" : "  undecided: \(result.diverged)"
        let tenths = Int(result.seconds * 10)
        print(
            "\(result.failure == nil ? "ok    " : "failed") \(scenario.name)  \(counts.joined(separator: "  "))  "
                + "random: \(result.random)\(diverged)  \(tenths / 10).\(tenths % 10) s")
        if let failure = result.failure { print(Report.text(Explorer.shared, failure.turns, failure.failure!)) }
        return result.failure == nil
    }

    private static func replay(_ scenario: Scenario, _ turns: [(Int, Int)]) -> Never {
        _ = Explorer.shared.run(scenario, Straight(), checkingLeaks: false)
        let run = Explorer.shared.run(scenario, Straight(turns))
        print(Report.text(Explorer.shared, run.turns, run.failure ?? "it did not fail this time."))
        exit(run.failure == nil ? 0 : 1)
    }

    // MARK: - All scenarios

    /// Explores all scenarios, two at a time, and returns whether all of them passed.
    private static func all(_ scenarios: [Scenario], _ arguments: [String]) -> Bool {
        let start = Moment.now
        var (waiting, running, failed) = (scenarios[...], [pid_t: (name: String, processor: Int)](), [String]())
        while !waiting.isEmpty || !running.isEmpty {
            if running.count < 2, let next = waiting.popFirst() {
                let processor = running.values.contains { $0.processor == 0 } ? 1 : 0
                let child = spawn(["--scenario", next.name, "--processor", "\(processor)"] + arguments)
                running[child] = (next.name, processor)
                continue
            }
            var status: Int32 = 0
            let child = waitpid(-1, &status, 0)
            if let name = running.removeValue(forKey: child)?.name, status != 0 { failed.append(name) }
        }
        let seconds = Int(Moment.now - start)
        print("\(scenarios.count - failed.count) of \(scenarios.count) scenarios passed in \(seconds) s")
        if !failed.isEmpty { print("failed: \(failed.joined(separator: ", "))") }
        return failed.isEmpty
    }

    private static func spawn(_ arguments: [String]) -> pid_t {
        let words = [CommandLine.arguments[0]] + arguments
        var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        var child = pid_t()
        let status = posix_spawnp(&child, words[0], nil, nil, &pointers, environ)
        if status != 0 { fail("\(words[0]) could not be started (\(status))") }
        return child
    }
}
