import Foundation
import ProgramTesting
import Testing

/// The article shows this whole program unchanged, so a reader who types it in has what is tested here.
@Suite struct ArticleTests {
    /// Each file that the article shows: its blocks in order, with an empty line between them.
    private let shown: [String: String]
    private let examples: URL

    init() throws {
        examples = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let article = try String(
            contentsOf: examples.appending(
                path: "../Sources/FluxCore/FluxCore.docc/FromAnEmptyFolderToProduction.md"), encoding: .utf8)
        var shown: [String: String] = [:]
        let parts = article.components(separatedBy: "```swift\n")
        for (before, after) in zip(parts, parts.dropFirst()) {
            // A separate line with the file's name as code precedes each block.
            let line = try #require(before.split(separator: "\n").last)
            let name = try #require(line.wholeMatch(of: /`([A-Za-z\/-]+\.swift)`/)?.1, "no name of a file: \(line)")
            let block = after.components(separatedBy: "```\n")[0]
            shown[String(name)] = shown[String(name)].map { $0 + "\n" + block } ?? block
        }
        self.shown = shown
    }

    @Test("The article shows every file of the program, complete and in order")
    func isComplete() throws {
        let folder = "Sources/todo-server"
        let names = try FileManager.default.contentsOfDirectory(atPath: examples.appending(path: folder).path)
        let files = names.map { "\(folder)/\($0)" } + ["Tests/TodoServerTests/OpenListTests.swift"]
        #expect(Set(shown.keys) == Set(files + ["Package.swift"]))
        for file in files {
            let content = try String(contentsOf: examples.appending(path: file), encoding: .utf8)
            #expect(shown[file] == content, "the article shows another \(file)")
        }
    }

    @Test("The article's manifest is valid, and its targets depend on what the tested ones depend on")
    func manifestIsRight() async throws {
        let ours = try await Manifest(String(contentsOf: examples.appending(path: "Package.swift"), encoding: .utf8))
        let theirs = try await Manifest(try #require(shown["Package.swift"]))
        let program = try #require(theirs.target("todo-server"))
        #expect(program.products == ours.target("todo-server")?.products)
        #expect(theirs.target("TodoServerTests") != nil)
        for (name, requirement) in theirs.requirements {
            #expect(requirement == ours.requirements[name], "\(name) is asked for in another version")
        }
    }
}

/// What SwiftPM reports about a manifest.
private struct Manifest {
    struct Target {
        let name: String
        /// The name and the package of each product that the target depends on.
        let products: Set<[String]>
    }

    let targets: [Target]
    /// The lowest version of each package that is fetched.
    let requirements: [String: String]

    init(_ text: String) async throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("Package.swift", Data(text.utf8))
        let dump = try await Command(
            program: URL(filePath: "/usr/bin/env"),
            ["swift", "package", "--package-path", folder.url.path, "dump-package"]
        ).finish()
        try #require(dump.status == 0, "\(dump.errors)")
        let package = try #require(try JSONSerialization.jsonObject(with: Data(dump.output.utf8)) as? [String: Any])
        targets = (package["targets"] as? [[String: Any]] ?? []).map { target in
            let dependencies = target["dependencies"] as? [[String: Any]] ?? []
            let products = dependencies.compactMap { $0["product"] as? [Any] }.map { $0.compactMap { $0 as? String } }
            return Target(name: target["name"] as? String ?? "", products: Set(products))
        }
        var requirements: [String: String] = [:]
        for dependency in package["dependencies"] as? [[String: Any]] ?? [] {
            guard let control = (dependency["sourceControl"] as? [[String: Any]])?.first,
                let name = control["identity"] as? String,
                let range = (control["requirement"] as? [String: Any])?["range"] as? [[String: String]]
            else { continue }
            requirements[name] = range.first?["lowerBound"]
        }
        self.requirements = requirements
    }

    func target(_ name: String) -> Target? { targets.first { $0.name == name } }
}
