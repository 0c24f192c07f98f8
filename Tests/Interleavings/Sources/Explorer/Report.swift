#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// Describes a failure, and how to reproduce it.
enum Report {
    /// The current scenario, for a run that ends in the middle.
    nonisolated(unsafe) static var scenario = ""

    static func replay(_ turns: [Turn]) -> String {
        let list = turns.isEmpty ? "straight" : turns.map { "\($0.choice):\($0.thread)" }.joined(separator: ",")
        return "swift run --package-path Tests/Interleavings interleavings --scenario \(scenario) --replay \(list)"
    }

    /// Returns the run step by step, without the steps at objects that only one thread uses.
    static func text(_ explorer: Explorer, _ turns: [Turn], _ failure: String) -> String {
        var lines = ["FAILED \(scenario): \(failure)", "", "The steps, where threads meet:"]
        var last: VirtualThread?
        for (number, step) in explorer.steps.enumerated() where step.object?.isContended ?? true {
            if step.thread !== last { lines.append("  \(step.thread.name) (\(step.thread.number))") }
            last = step.thread
            let object = step.object.map { " \($0.name)" } ?? ""
            lines.append("    \(number + 1): \(step.operation)\(object) at \(step.place.text)")
        }
        lines += ["", "To see it again: \(replay(turns))"]
        return lines.joined(separator: "\n")
    }

    /// Ends the process in the middle of a run that cannot be completed.
    static func stop(_ explorer: Explorer) -> Never {
        print(text(explorer, explorer.turns, explorer.failure ?? "it was stopped."))
        fflush(nil)
        _exit(1)
    }

    /// Reports a crash like any other failure.
    static func catchCrashes() {
        for number in [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGABRT, SIGFPE] {
            signal(number) { number in
                signal(number, SIG_DFL)
                Explorer.shared.fail("the process was stopped by signal \(number).")
                Report.stop(Explorer.shared)
            }
        }
    }
}
