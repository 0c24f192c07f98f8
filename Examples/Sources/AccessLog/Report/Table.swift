/// Rows of cells as lines of text, each column as wide as its widest cell.
struct Table {
    enum Alignment { case left, right }

    private let alignments: [Alignment]
    private var rows: [[String]] = []

    init(_ alignments: [Alignment]) {
        self.alignments = alignments
    }

    mutating func add(_ cells: String...) {
        rows.append(cells)
    }

    var lines: [String] {
        let widths = alignments.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            var line = ""
            for (column, cell) in row.enumerated() {
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                if column > 0 { line += "  " }
                // The end of a line needs no padding, which would be invisible.
                let isLast = column == row.count - 1
                line += alignments[column] == .right ? padding + cell : cell + (isLast ? "" : padding)
            }
            return line
        }
    }
}

extension Int {
    /// The number with a comma between thousands, the same in every locale because reports are compared.
    var grouped: String {
        var digits = String(magnitude)
        var groups: [Substring] = []
        while digits.count > 3 {
            groups.insert(digits.suffix(3), at: 0)
            digits.removeLast(3)
        }
        return (self < 0 ? "-" : "") + ([digits[...]] + groups).joined(separator: ",")
    }

    /// The share of a total in per cent, with one decimal; `-` if the total is 0.
    func share(of total: Int) -> String {
        guard total > 0 else { return "-" }
        let tenths = Int((Double(self) * 1000 / Double(total)).rounded())
        return "\(tenths / 10).\(tenths % 10)%"
    }
}

extension String {
    /// The text with every character escaped that could move a terminal's cursor or change the text direction.
    ///
    /// Servers escape such characters, but a log need not come from a server.
    public var harmless: String {
        if utf8.allSatisfy({ 0x20..<0x7F ~= $0 }) { return self }
        var result = ""
        for scalar in unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
                result += "\\u{" + String(scalar.value, radix: 16, uppercase: true) + "}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
