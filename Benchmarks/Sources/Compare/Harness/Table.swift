import Foundation

extension Findings {
    /// The rows of the table.
    var text: String {
        let columns = ["median", "min", "max"].map { $0.padded(to: 10) }.joined()
        var lines = ["\(name)  \(title)", "    " + "".padding(to: 34) + columns + "   x floor"]
        for row in series {
            let numbers = [row.median, row.min, row.max].map { $0.short.padded(to: 10) }.joined()
            let ratio = row.name == floor ? "floor" : row.ratio.map { String(format: "%.2f", $0) } ?? ""
            lines.append("    " + row.name.padding(to: 34) + numbers + ratio.padded(to: 10) + "  " + row.unit)
        }
        if let calm, calm.isToDistrust {
            lines.append("    others used \((100 * calm.others).short) % of the machine meanwhile: not to be trusted")
        }
        lines += bounds.map { "    \($0.isMet ? "kept  " : "MISSED") \($0.text)" }
        return lines.joined(separator: "\n")
    }
}

extension Findings.Outcome {
    init(_ what: String, _ value: Double, _ relation: String, _ limit: Double, _ unit: String, _ isMet: Bool) {
        self.init(
            text: "\(what): \(value.short) \(unit), \(relation) \(limit.short)", value: value, isMet: isMet)
    }
}

extension Double {
    /// The number with about three significant digits.
    var short: String {
        String(format: abs(self) < 10 ? "%.2f" : abs(self) < 100 ? "%.1f" : "%.0f", self)
    }
}

extension String {
    func padded(to width: Int) -> String {
        String(repeating: " ", count: Swift.max(0, width - count)) + self
    }

    func padding(to width: Int) -> String {
        self + String(repeating: " ", count: Swift.max(0, width - count))
    }
}
