import Foundation
import Workbench

/// Everything that a run found, in the form that is written to a file.
struct Report: Codable {
    let machine: Machine
    let rounds: Int
    let seconds: Double
    var workloads: [Findings] = []

    init(machine: Machine, rounds: Int, seconds: Double) {
        self.machine = machine
        self.rounds = rounds
        self.seconds = seconds
    }

    init(contentsOf path: String) throws {
        self = try JSONDecoder().decode(Report.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }

    func write(to path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try encoder.encode(self).write(to: URL(fileURLWithPath: path))
    }
}

/// What all rounds of a workload found.
struct Findings: Codable {
    let name: String
    let title: String
    let floor: String?
    let series: [Series]
    let bounds: [Outcome]
    /// How calm the machine was; nil if the system does not say.
    let calm: Calm?

    /// One reading over all rounds.
    struct Series: Codable {
        let name: String
        let unit: String
        let values: [Double]
        let median: Double
        let min: Double
        let max: Double
        /// The median of the ratios to the floor, each of two values of the same round.
        let ratio: Double?
    }

    /// Whether a bound was kept.
    struct Outcome: Codable {
        let text: String
        let value: Double
        let isMet: Bool
    }

    init(_ workload: Workload, rounds: [[Reading]], calm: Calm?) throws {
        self.calm = calm
        var order: [String] = []
        var units: [String: String] = [:]
        var values: [String: [Double]] = [:]
        for reading in rounds.joined() {
            if units.updateValue(reading.unit, forKey: reading.name) == nil { order.append(reading.name) }
            values[reading.name, default: []].append(reading.value)
        }
        func ratio(_ name: String, _ floor: String?) -> Double? {
            guard let floor, floor != name, units[floor] == units[name] else { return nil }
            guard let own = values[name], let others = values[floor], own.count == others.count else { return nil }
            return zip(own, others).map { $0 / $1 }.median
        }
        name = workload.name
        title = workload.title
        floor = workload.floor
        series = order.map { name in
            let own = values[name, default: []]
            return Series(
                name: name, unit: units[name, default: ""], values: own, median: own.median,
                min: own.percentile(0), max: own.percentile(100), ratio: ratio(name, workload.floor))
        }
        bounds = try workload.bounds.map { bound in
            let outcome: Outcome?
            switch bound.limit {
            case .ratio(let limit, let other):
                let floor = other ?? workload.floor
                outcome = ratio(bound.reading, floor).map { value in
                    Outcome("\(bound.reading) / \(floor ?? "")", value, "at most", limit, "x", value <= limit)
                }
            case .most(let limit):
                outcome = values[bound.reading].map(\.median).map { value in
                    Outcome(bound.reading, value, "at most", limit, units[bound.reading] ?? "", value <= limit)
                }
            case .least(let limit):
                outcome = values[bound.reading].map(\.median).map { value in
                    Outcome(bound.reading, value, "at least", limit, units[bound.reading] ?? "", value >= limit)
                }
            }
            guard let outcome else { throw WrongCount(description: "\(workload.name) has no reading \(bound.reading)") }
            return outcome
        }
    }
}
