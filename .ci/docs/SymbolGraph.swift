import Foundation

/// What the compiler says about the public declarations of a module.
struct SymbolGraph: Decodable {
    struct Symbol: Decodable {
        struct Kind: Decodable { var identifier: String }
        struct Identifier: Decodable { var precise: String }
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
        var identifier: Identifier
        var pathComponents: [String]
        var docComment: Documentation?
        /// None where the compiler made the declaration.
        var location: Location?
    }

    struct Relationship: Decodable {
        var kind: String
        var source: String
    }

    var symbols: [Symbol]
    var relationships: [Relationship]
}

extension SymbolGraph {
    init(path: String) throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: path))
        self = try JSONDecoder().decode(SymbolGraph.self, from: data)
    }

    /// What somebody wrote: neither made by the compiler, nor a type's copy of what an extension of its protocol has.
    var written: [Symbol] {
        symbols.filter { symbol in
            symbol.location != nil && symbol.kind.identifier != "swift.extension"
                && !symbol.identifier.precise.contains("::SYNTHESIZED::")
        }
    }
}

extension SymbolGraph.Symbol {
    /// The file, as a path from the root of the repository.
    var file: String {
        guard let location else { return "" }
        let uri = location.uri
        return String(uri.range(of: "Sources/").map { uri[$0.lowerBound...] } ?? uri[...])
    }

    /// The line, the first being 1.
    var line: Int { (location?.position.line ?? 0) + 1 }
}
