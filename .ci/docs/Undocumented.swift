// Reads symbol graphs and names every public declaration whose documentation is not as a reader needs it: one sentence
// of at most 150 characters first, and on classes, structs, enums and protocols a line on thread safety.
import Foundation

extension SymbolGraph.Symbol {
    var findings: [String] {
        guard let docComment else { return ["has no documentation"] }
        var findings: [String] = []
        let abstract = docComment.lines.map(\.text).prefix { !$0.allSatisfy(\.isWhitespace) }.joined(separator: " ")
        if abstract.isEmpty { findings.append("begins with an empty line instead of an abstract") }
        if abstract.count > 150 { findings.append("has an abstract of \(abstract.count) characters; 150 at most") }
        if !abstract.hasSuffix(".") || abstract.contains(". ") { findings.append("has no abstract of one sentence") }
        let isType = ["swift.class", "swift.struct", "swift.enum", "swift.protocol"].contains(kind.identifier)
        if isType && !docComment.lines.contains(where: { $0.text.hasPrefix("Thread safety: ") }) {
            findings.append("has no line that begins with 'Thread safety: '")
        }
        return findings
    }
}

@main
enum Undocumented {
    /// The arguments are the name of a module and its symbol graphs: its own, and one for each module that it extends.
    static func main() throws {
        let module = CommandLine.arguments[1]
        let symbols = try CommandLine.arguments.dropFirst(2).flatMap { try SymbolGraph(path: $0).written }
        let findings = symbols.flatMap { symbol in
            symbol.findings.map {
                "\(symbol.file):\(symbol.line): error: \(symbol.pathComponents.joined(separator: ".")) \($0)"
            }
        }
        findings.sorted().forEach { print($0) }
        print("\(module): \(symbols.count) public declarations, \(findings.count) findings.")
        if symbols.isEmpty || !findings.isEmpty { exit(1) }
    }
}
