// Reads a symbol graph and names every public declaration whose documentation is not as a reader needs it: one sentence
// of at most 150 characters first, and on classes, structs, enums and protocols a line on thread safety.
import Foundation

struct SymbolGraph: Decodable {
    struct Symbol: Decodable {
        struct Kind: Decodable { var identifier: String }
        struct Documentation: Decodable {
            struct Line: Decodable { var text: String }
            var lines: [Line]
        }
        struct Location: Decodable {
            struct Position: Decodable { var line: Int }
            var uri: String
            var position: Position
        }

        var kind: Kind
        var pathComponents: [String]
        var docComment: Documentation?
        /// None where the compiler made the declaration.
        var location: Location?
    }

    var symbols: [Symbol]
}

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

    /// Where the declaration is, as a path from the root of the repository.
    var place: String {
        guard let location else { return "" }
        let path = location.uri.range(of: "Sources/").map { location.uri[$0.lowerBound...] } ?? location.uri[...]
        return "\(path):\(location.position.line + 1)"
    }
}

@main
enum Undocumented {
    static func main() throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: CommandLine.arguments[1]))
        let symbols = try JSONDecoder().decode(SymbolGraph.self, from: data).symbols.filter { $0.location != nil }
        let findings = symbols.flatMap { symbol in
            symbol.findings.map { "\(symbol.place): error: \(symbol.pathComponents.joined(separator: ".")) \($0)" }
        }
        findings.sorted().forEach { print($0) }
        print("\(symbols.count) public declarations, \(findings.count) findings.")
        if symbols.isEmpty || !findings.isEmpty { exit(1) }
    }
}
