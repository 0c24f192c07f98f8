import Workbench

/// How long a cell measures.
struct Effort: Sendable {
    /// Zero: one batch without a warm-up, in which only the counts matter.
    let seconds: Double

    /// Runs batches of operations for the requested time.
    ///
    /// The loop is the caller's, so that what it calls can be inlined into it as in a program of its own.
    ///
    /// - Parameters:
    ///   - operations: The number of operations in a batch.
    ///   - total: Returns how many were applied since the beginning; checked after each batch, outside its time.
    ///   - batch: Performs the given number of operations.
    /// - Returns: The median of the batches' times, in ns per operation.
    /// - Throws: An error if a total is wrong.
    func measure(
        _ operations: Int, total: () throws -> Int, batch: (_ operations: Int) throws -> Void
    ) throws -> Double {
        var expected = 0
        return try measure {
            let time = try ContinuousClock().measure { try batch(operations) }
            expected += operations
            try expect("total", total(), expected)
            return time / .nanoseconds(operations)
        }
    }

    /// Measures a batch that takes its own time and checks its own counts.
    ///
    /// It takes the median, because other programs use the machine too: the few batches that they spoil do not show.
    func measure(_ batch: () throws -> Double) rethrows -> Double {
        if seconds == 0 { return try batch() }
        let clock = ContinuousClock()
        let warm = clock.now + .seconds(seconds / 5)
        repeat { _ = try batch() } while clock.now < warm
        var times: [Double] = []
        let end = clock.now + .seconds(seconds)
        repeat { times.append(try batch()) } while clock.now < end
        return times.median
    }
}

extension [Double] {
    var median: Double { percentile(50) }

    /// Returns the value that a percentage of the values is below.
    func percentile(_ percent: Double) -> Double {
        if isEmpty { return .nan }
        let sorted = sorted()
        let position = percent / 100 * Double(count - 1)
        let below = sorted[Int(position)]
        let above = sorted[Swift.min(Int(position) + 1, count - 1)]
        return below + (above - below) * (position - position.rounded(.down))
    }
}
