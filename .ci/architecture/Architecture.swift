// Counts what the modules have, checks what the compiler accepts, and reports each violation with its place.
// `.ci/check-architecture` says what is checked, and why.
import Foundation

/// The limits.
///
/// If clarity needs more, raise one, and say why.
enum Limits {
    static let core = "FluxCore"
    static let files = 45
    // The goal was 2,000; the rest is the price of order and release with many threads. Do not raise it again.
    static let linesOfCode = 2_300
    static let types = 36
    static let declarations = 200
    // 6,500 when the modules were separated. Since then came replication with its test log and conformance checks, families,
    // shared limits, saves that report what they did, views of many stores and specialised views of two and three, parts with
    // `.latest`, the identity of files, the release of user values outside of all locks, subscriptions to all dispatchers below
    // one, and checksums of what a shared log keeps. The history of this line has the rest.
    static let linesOfCodeOfAll = 9_950
    static let linesOfReadme = 250
}

/// The sizes of a module.
struct Figures {
    var files = 0
    var lines = 0
    var linesOfCode = 0
    var types = 0
    var declarations = 0
    var symbols = 0

    static func + (left: Figures, right: Figures) -> Figures {
        Figures(
            files: left.files + right.files, lines: left.lines + right.lines,
            linesOfCode: left.linesOfCode + right.linesOfCode, types: left.types + right.types,
            declarations: left.declarations + right.declarations, symbols: left.symbols + right.symbols)
    }
}

struct Finding: Hashable {
    var path: String
    var line: Int?
    var text: String
}

struct Architecture {
    let modules: [Module]
    private let expressions = Expressions()
    /// The folder with the compiler's symbol graphs of each module.
    let symbols: String
    private var findings: Set<Finding> = []
    /// The lists of what is allowed, each with the entries that were used.
    private var clocks: [String: (line: Int, isUsed: Bool)] = [:]
    private var unsafe: [String: (line: Int, constructs: [String: Bool])] = [:]

    private static let clockList = ".ci/architecture/clocks.txt"
    private static let unsafeList = ".ci/architecture/unsafe.txt"

    init(symbols: String) throws {
        self.symbols = symbols
        modules = try Module.all(path: ".ci/architecture/modules.txt")
        try readLists()
    }

    private mutating func report(_ path: String, _ line: Int?, _ text: String) {
        findings.insert(Finding(path: path, line: line, text: text))
    }

    // MARK: - What is allowed

    private mutating func readLists() throws {
        for (line, fields) in try entries(of: Self.clockList) {
            clocks[fields[0]] = (line, false)
            if fields.count < 2 {
                report(Self.clockList, line, "give a reason: which duration is it that the user gave?")
            }
        }
        let benchmarks = try files(in: "Benchmarks", suffix: ".swift").map {
            try String(contentsOfFile: $0, encoding: .utf8)
        }
        for (line, fields) in try entries(of: Self.unsafeList) {
            guard fields.count > 2 else {
                report(
                    Self.unsafeList, line,
                    "a file, a benchmark and the constructs are three columns, not \(fields.count)")
                continue
            }
            if !benchmarks.contains(where: { $0.contains("\"\(fields[1])\"") }) {
                report(Self.unsafeList, line, "no source in Benchmarks has the name \"\(fields[1])\"")
            }
            let constructs = fields[2...].joined(separator: " ").split(separator: ",")
                .map { ($0.trimmingCharacters(in: .whitespaces), false) }
            unsafe[fields[0]] = (line, Dictionary(constructs) { first, _ in first })
        }
    }

    /// Reports entries that allow something that no file does any more: they would silently allow it again later.
    mutating func checkLists() {
        for (path, entry) in clocks where !entry.isUsed {
            report(Self.clockList, entry.line, "\(path) uses no clock, or is not there: take it off the list")
        }
        for (path, entry) in unsafe {
            for (construct, isUsed) in entry.constructs where !isUsed {
                report(
                    Self.unsafeList, entry.line, "\(path) has no '\(construct)', or is not there: take it off the list")
            }
        }
    }

    // MARK: - The sources

    mutating func figures(of module: Module) throws -> Figures {
        var figures = Figures()
        var texts: [String: SourceFile] = [:]
        for path in try files(in: "Sources/\(module.name)", suffix: ".swift") {
            let file = try SourceFile(path: path)
            texts[path] = file
            figures.files += 1
            figures.lines += file.lines.count
            figures.linesOfCode += file.linesOfCode
            checkImports(of: file, in: module)
            checkNames(of: file)
            if module.name == Limits.core { checkClocks(of: file) }
            checkUnsafe(of: file)
        }
        if figures.files == 0 {
            report("Sources/\(module.name)", nil, "modules.txt has this module, and there is no source")
        }
        try count(texts, of: module, into: &figures)
        return figures
    }

    private mutating func checkImports(of file: SourceFile, in module: Module) {
        let isInSupport = file.path.contains("/Support/")
        let allowed = module.imports.union(isInSupport ? module.importsInSupport : [])
        var conditions: [Substring] = []
        for (index, text) in file.lines.enumerated() {
            let line = index + 1
            if let (_, word, condition) = text.firstMatch(of: expressions.condition)?.output {
                if word != "if" { _ = conditions.popLast() }
                if word != "endif" { conditions.append(condition) }
            }
            guard let name = text.firstMatch(of: expressions.importing)?.output.1 else { continue }
            if modules.contains(where: { $0.name == name }) {
                if !module.needs.contains(String(name)) {
                    report(file.path, line, "\(module.name) may not import \(name)")
                }
                let spellings = ["canImport(\(Limits.core))", "canImport(\(name))"]
                if !conditions.contains(where: { spellings.contains($0.trimmingCharacters(in: .whitespaces)) }) {
                    report(file.path, line, "'import \(name)' stands outside '#if canImport(\(Limits.core))'")
                }
            } else if !allowed.contains(String(name)) {
                let inSupport = module.importsInSupport.contains(String(name)) ? " outside a folder Support" : ""
                report(file.path, line, "\(module.name) may not import \(name)\(inSupport)")
            }
        }
        for (line, match) in file.matches(of: expressions.privileged) {
            report(file.path, line, "'\(match.output)' gives a module what a user does not have")
        }
    }

    private mutating func checkNames(of file: SourceFile) {
        for (line, _) in file.matches(of: expressions.package) {
            report(file.path, line, "'package' is no access level here: what a module needs of another is public")
        }
        for (line, match) in file.matches(of: expressions.published) where match.output.1.hasPrefix(" _") {
            report(file.path, line, "a public name begins with an underscore")
        }
    }

    private mutating func checkClocks(of file: SourceFile) {
        for (line, match) in file.matches(of: expressions.clock) {
            if clocks[file.path] == nil {
                report(file.path, line, "'\(match.output)': nothing here is decided by a clock; see \(Self.clockList)")
            }
            clocks[file.path]?.isUsed = true
        }
    }

    private mutating func checkUnsafe(of file: SourceFile) {
        if file.path.contains("/Support/") { return }
        for (line, match) in file.matches(of: expressions.unsafe) {
            let construct = String(match.output)
            if unsafe[file.path]?.constructs[construct] == nil {
                report(file.path, line, "'\(construct)' stands outside Support; see \(Self.unsafeList)")
            } else {
                unsafe[file.path]?.constructs[construct] = true
            }
        }
    }

    // MARK: - What is public

    /// Counts the public declarations that the compiler found, and those only in the text, for other platforms and settings.
    ///
    /// Enum cases and protocol requirements belong to their type: they count as symbols, not as declarations.
    private mutating func count(_ texts: [String: SourceFile], of module: Module, into figures: inout Figures) throws {
        var found: Set<String> = []
        var lines: Set<String> = []
        for path in try files(in: symbols, suffix: ".symbols.json") {
            let name = path.split(separator: "/").last!.dropLast(".symbols.json".count)
            guard name == module.name || name.hasPrefix(module.name + "@") else { continue }
            let graph = try SymbolGraph(path: path)
            let requirements = Set(graph.relationships.filter { $0.kind.hasSuffix("equirementOf") }.map(\.source))
            for symbol in graph.written {
                let kind = symbol.kind.identifier
                figures.symbols += 1
                found.insert("\(symbol.file):\(symbol.line)")
                if let lines = texts[symbol.file]?.lines, lines.indices.contains(symbol.line - 1) {
                    found.insert("\(symbol.file):\(lines[symbol.line - 1].trimmingCharacters(in: .whitespaces))")
                }
                if symbol.pathComponents.last!.hasPrefix("_") {
                    report(symbol.file, symbol.line, "a public name begins with an underscore")
                }
                if kind == "swift.enum.case" || requirements.contains(symbol.identifier.precise) { continue }
                figures.declarations += 1
                if symbol.pathComponents.count == 1 && Self.types.contains(kind) { figures.types += 1 }
            }
        }
        for file in texts.values {
            for (line, _) in file.matches(of: expressions.published) {
                let text = file.lines[line - 1].trimmingCharacters(in: .whitespaces)
                if found.contains("\(file.path):\(line)") || found.contains("\(file.path):\(text)") { continue }
                if !lines.insert("\(file.path):\(text)").inserted { continue }
                figures.symbols += 1
                figures.declarations += 1
                if !file.lines[line - 1].matches(of: expressions.publishedType).isEmpty { figures.types += 1 }
            }
        }
    }

    private static let types: Set<String> = [
        "swift.class", "swift.struct", "swift.enum", "swift.protocol", "swift.actor", "swift.typealias",
    ]

    // MARK: - The package

    mutating func checkPackage(_ package: Package) throws {
        let manifest = "Package.swift"
        let text = try String(contentsOfFile: manifest, encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false)
        for (line, _) in try SourceFile(path: manifest).matches(of: expressions.dependency) {
            report(manifest, line, "the package has a dependency")
        }
        if !package.dependencies.isEmpty {
            report(manifest, 1, "the package has \(package.dependencies.count) dependencies")
        }
        for target in package.targets where !(target.productDependencies ?? []).isEmpty {
            report(manifest, line(of: target.name, in: text), "\(target.name) depends on products of other packages")
        }
        for module in modules {
            guard let target = package.targets.first(where: { $0.name == module.name }) else {
                report(manifest, 1, "there is no target \(module.name)")
                continue
            }
            let needs = target.targetDependencies ?? []
            // A target also gets the dependencies of its dependencies.
            if !needs.allSatisfy(module.needs.contains) || closure(of: needs) != Set(module.needs) {
                report(
                    manifest, line(of: module.name, in: text),
                    "\(module.name) depends on \(needs), and by modules.txt needs \(module.needs)")
            }
            if !package.products.contains(where: { $0.name == module.name && $0.targets == [module.name] }) {
                report(
                    manifest, line(of: module.name, in: text),
                    "there is no library product \(module.name) of this module alone")
            }
            if !package.targets.contains(where: { $0.name == module.name + "Tests" && $0.type == "test" }) {
                report(manifest, line(of: module.name, in: text), "there is no test target \(module.name)Tests")
            }
        }
        for folder in try FileManager.default.contentsOfDirectory(atPath: "Sources").sorted()
        where !folder.hasPrefix(".") && !modules.contains(where: { $0.name == folder }) {
            report("Sources/\(folder)", nil, "modules.txt has no such module")
        }
    }

    private func closure(of names: [String]) -> Set<String> {
        names.reduce(into: []) { all, name in
            all.insert(name)
            all.formUnion(modules.first { $0.name == name }?.needs ?? [])
        }
    }

    /// The line of the manifest that names something first.
    private func line(of name: String, in manifest: [Substring]) -> Int {
        (manifest.firstIndex { $0.contains("\"\(name)\"") } ?? 0) + 1
    }

    // MARK: - Limits

    mutating func check(_ place: String, _ what: String, _ figure: Int, atMost limit: Int) {
        if figure > limit { report(place, nil, "\(what): \(figure), and \(limit) at most") }
    }

    /// The findings, in the order of the sources.
    var violations: [String] {
        findings.sorted { ($0.path, $0.line ?? 0, $0.text) < ($1.path, $1.line ?? 0, $1.text) }
            .map { "\($0.path)\($0.line.map { ":\($0)" } ?? ""): error: \($0.text)" }
    }
}

private func files(in folder: String, suffix: String) throws -> [String] {
    guard let paths = FileManager.default.enumerator(atPath: folder) else { return [] }
    return paths.compactMap { $0 as? String }
        .filter { $0.hasSuffix(suffix) && !$0.contains(".docc/") }
        .filter { !$0.split(separator: "/").contains { $0.hasPrefix(".") } }
        .map { "\(folder)/\($0)" }.sorted()
}

private func row(_ name: String, _ figures: [Int?]) {
    let columns = figures.map { figure in
        let text = figure.map(String.init) ?? ""
        return String(repeating: " ", count: max(0, 14 - text.count)) + text
    }
    print(name.padding(toLength: 20, withPad: " ", startingAt: 0) + columns.joined())
}

@main
enum Program {
    /// The arguments are the folder of the symbol graphs and the output of `swift package describe`.
    static func main() throws {
        do {
            try check()
        } catch let wrong as Wrong {
            print(wrong)
            exit(1)
        }
    }

    private static func check() throws {
        var architecture = try Architecture(symbols: CommandLine.arguments[1])
        var all = Figures()
        print(
            String(repeating: " ", count: 20)
                + ["files", "lines", "lines of code", "public types", "declarations", "symbols"]
                .map { String(repeating: " ", count: 14 - $0.count) + $0 }.joined())
        for module in architecture.modules {
            let figures = try architecture.figures(of: module)
            all = all + figures
            row(
                module.name,
                [
                    figures.files, figures.lines, figures.linesOfCode, figures.types, figures.declarations,
                    figures.symbols,
                ])
            guard module.name == Limits.core else { continue }
            let place = "Sources/\(module.name)"
            row("  at most", [Limits.files, nil, Limits.linesOfCode, Limits.types, Limits.declarations, nil])
            architecture.check(place, "files", figures.files, atMost: Limits.files)
            architecture.check(place, "lines of code", figures.linesOfCode, atMost: Limits.linesOfCode)
            architecture.check(place, "public types at top level", figures.types, atMost: Limits.types)
            architecture.check(place, "public declarations", figures.declarations, atMost: Limits.declarations)
        }
        row("all", [all.files, all.lines, all.linesOfCode, all.types, all.declarations, all.symbols])
        row("  at most", [nil, nil, Limits.linesOfCodeOfAll])
        architecture.check("Sources", "lines of code", all.linesOfCode, atMost: Limits.linesOfCodeOfAll)

        let readme = try String(contentsOfFile: "README.md", encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false
        ).dropLast().count
        row("README.md", [nil, readme])
        row("  at most", [nil, Limits.linesOfReadme])
        architecture.check("README.md", "lines", readme, atMost: Limits.linesOfReadme)

        try architecture.checkPackage(Package(path: CommandLine.arguments[2]))
        architecture.checkLists()
        let violations = architecture.violations
        violations.forEach { print($0) }
        print(violations.isEmpty ? "The architecture is as it has to be." : "\(violations.count) violations.")
        if !violations.isEmpty { exit(1) }
    }
}
