/// The limits of an exploration.
struct Limits {
    /// The maximum number of preemptions in a systematic schedule.
    var bound = 3
    /// The time limit for each number of preemptions above two, in seconds.
    var seconds = 60.0
    /// The time limit for all schedules with at most two preemptions, in seconds.
    var cutOff = 120.0
    /// The number of random runs.
    var random = 500
    var seed: UInt64 = 1
}

/// The result of an exploration.
struct Exploration {
    /// The number of schedules run for each maximum of preemptions, and whether these were all.
    var systematic: [(bound: Int, count: Int, isAll: Bool)] = []
    var random = 0
    var diverged = 0
    var seconds = 0.0
    /// The first run that failed, shortened as far as possible.
    var failure: Run?
}

extension Explorer {
    /// Explores a scenario: all schedules up to the maximum number of preemptions, then random ones.
    func explore(_ scenario: Scenario, _ limits: Limits) -> Exploration {
        let start = Moment.now
        var result = Exploration()
        // Creates what is created only once in a process.
        var longest = run(scenario, Straight(), checkingLeaks: false).choices
        func note(_ run: Run) -> Bool {
            longest = max(longest, run.choices)
            if run.failure != nil { result.failure = shorten(run, scenario) }
            return run.failure != nil
        }
        search: for bound in 0...limits.bound {
            let systematic = Systematic(bound: bound)
            var (count, isAll) = (0, false)
            let end = bound <= 2 ? start + limits.cutOff : Moment.now + limits.seconds
            while !isAll && Moment.now < end {
                count += 1
                if note(run(scenario, systematic)) { break }
                isAll = !systematic.advance()
            }
            result.diverged += systematic.diverged
            result.systematic.append((bound, count, isAll))
            if !isAll { break }
        }
        while result.failure == nil && result.random < limits.random {
            result.random += 1
            let seed = limits.seed &+ UInt64(result.random)
            // One to four changes of a priority, in turn.
            if note(run(scenario, ByPriority(seed: seed, length: longest, depth: 2 + result.random % 4))) { break }
        }
        result.seconds = Moment.now - start
        return result
    }

    /// Removes each turn without which the schedule still fails.
    private func shorten(_ run: Run, _ scenario: Scenario) -> Run {
        var best = run
        var isShorter = true
        while isShorter {
            isShorter = false
            for index in best.turns.indices.reversed() where index < best.turns.count {
                var turns = best.turns.map { ($0.choice, $0.thread) }
                turns.remove(at: index)
                let shorter = self.run(scenario, Straight(turns))
                if shorter.failure != nil && shorter.turns.count < best.turns.count {
                    (best, isShorter) = (shorter, true)
                }
            }
        }
        // Runs the schedule again to record its steps.
        let last = self.run(scenario, Straight(best.turns.map { ($0.choice, $0.thread) }))
        return last.failure == nil ? best : last
    }
}
