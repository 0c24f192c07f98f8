/// How far a scenario is explored.
struct Limits {
    /// The most preemptions that a systematic schedule has.
    var bound = 3
    /// How long the schedules with more than two preemptions may take.
    var seconds = 60.0
    /// How long those with two at most may take.
    var cutOff = 120.0
    /// How many runs are left to chance.
    var random = 500
    var seed: UInt64 = 1
}

/// What came of exploring a scenario.
struct Exploration {
    /// How many schedules were run, by the most preemptions that they have, and whether these were all.
    var systematic: [(bound: Int, count: Int, isAll: Bool)] = []
    var random = 0
    var diverged = 0
    var seconds = 0.0
    /// The first run that failed, made as short as it could be.
    var failure: Run?
}

extension Explorer {
    /// Explores a scenario: all schedules with none, one, two and three preemptions, then some that chance makes.
    func explore(_ scenario: Scenario, _ limits: Limits) -> Exploration {
        let start = Moment.now
        var result = Exploration()
        // Makes what there is once in a process.
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
            // From one change of a priority to four, in turn.
            if note(run(scenario, ByPriority(seed: seed, length: longest, depth: 2 + result.random % 4))) { break }
        }
        result.seconds = Moment.now - start
        return result
    }

    /// Takes out of a schedule each turn without which it fails too.
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
        // Once more, for its steps.
        let last = self.run(scenario, Straight(best.turns.map { ($0.choice, $0.thread) }))
        return last.failure == nil ? best : last
    }
}
