import Foundation

/// A line of modules.txt: a module, what it is built with, and what it may import.
struct Module {
    var name: String
    var needs: [String]
    var imports: Set<String>
    /// What only its folders with the name Support may import.
    var importsInSupport: Set<String>

    static func all(path: String) throws -> [Module] {
        try entries(of: path).map { entry in
            guard entry.fields.count == 4 else {
                throw Wrong(
                    description: "\(path):\(entry.line): error: a module has four columns, not \(entry.fields.count)")
            }
            return Module(
                name: entry.fields[0], needs: list(entry.fields[1]), imports: libraries(entry.fields[2]),
                importsInSupport: libraries(entry.fields[3]))
        }
    }

    private static func list(_ field: String) -> [String] {
        field == "-" ? [] : field.split(separator: ",").map(String.init)
    }

    private static func libraries(_ field: String) -> Set<String> {
        Set(list(field).flatMap { $0 == "C" ? ["Glibc", "Musl", "Darwin", "Android"] : [$0] })
    }
}

/// What is wrong with the lists themselves.
struct Wrong: Error, CustomStringConvertible {
    var description: String
}

/// The lines of a list, split at blanks, without those that are empty or begin with a number sign.
func entries(of path: String) throws -> [(line: Int, fields: [String])] {
    try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
        .enumerated()
        .map { ($0 + 1, $1.split(whereSeparator: \.isWhitespace).map(String.init)) }
        .filter { !$1.isEmpty && !$1[0].hasPrefix("#") }
}

/// What SwiftPM says of the package.
struct Package: Decodable {
    struct Dependency: Decodable {}
    struct Product: Decodable {
        var name: String
        var targets: [String]
    }
    struct Target: Decodable {
        var name: String
        var path: String
        var type: String
        var targetDependencies: [String]?
        var productDependencies: [String]?
    }

    var dependencies: [Dependency]
    var products: [Product]
    var targets: [Target]

    init(path: String) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Package.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }
}
