import Foundation

/// The result of a run.
struct Report {
    /// The medians of one meter in the middle and in the last third of the time.
    struct Finding {
        let meter: Meter
        let middle: Double
        let last: Double
        /// How many more threads there are in the last third.
        var threads = 0.0

        var growth: Double { last - middle }
        var allowed: Double { meter.tolerance(from: middle, threads: threads) }
        var isGrown: Bool { growth > allowed }
    }

    let samples: [Sample]
    let rounds: Int

    /// A shorter run is still warming up: the system adds threads from time to time, each with memory that it keeps.
    var isTooShort: Bool { (samples.last?.minutes ?? 0) < 10 }

    var findings: [Finding] {
        let third = samples.count / 3
        var findings: [Finding] = Meter.allCases.compactMap { meter in
            let values = samples.compactMap { $0.readings[meter] }
            guard third > 0, values.count == samples.count else { return nil }
            return Finding(
                meter: meter, middle: median(values[third..<(2 * third)]), last: median(values[(2 * third)...]))
        }
        let threads = findings.first { $0.meter == .threads }?.growth ?? 0
        for index in findings.indices { findings[index].threads = threads }
        return findings
    }

    var text: String {
        let length = String(format: "%.1f", samples.last?.minutes ?? 0)
        let rows = findings.map { finding in
            let numbers = [finding.middle, finding.last, finding.growth, finding.allowed]
            let cells = numbers.map {
                String(format: "%.0f", $0) + (finding.meter.unit.isEmpty ? "" : " ") + finding.meter.unit
            }
            return "| \(finding.meter.name) | \(cells.joined(separator: " | ")) |"
        }
        return """
            \(length) minutes, \(rounds) rounds, \(samples.count) samples.

            | median of | the middle third | the last third | growth | allowed |
            |---|--:|--:|--:|--:|
            \(rows.joined(separator: "\n"))
            """
    }

    private func median(_ values: ArraySlice<Double>) -> Double {
        let sorted = values.sorted()
        let middle = sorted.count / 2
        return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
    }
}
