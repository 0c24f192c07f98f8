import Foundation
import ProgramTesting
import Testing

/// What durable-counter reports to a user who calls it by hand.
@Suite struct CounterCommandTests {
    private func run(
        _ arguments: String..., to output: FileHandle? = nil
    ) async throws -> (status: Int32, output: String, errors: String) {
        try await Command(program: Command.built("durable-counter"), arguments, output: output).finish()
    }

    @Test func `A database that cannot be opened gives one line and status 2`() async throws {
        let path = "/dev/null/counter.sqlite"
        let result = try await run(path)
        #expect(result.status == 2)
        #expect(result.output == "")
        #expect(result.errors.hasPrefix("durable-counter: \(path): "), "\(result.errors)")
        #expect(result.errors.filter { $0 == "\n" }.count == 1, "\(result.errors)")
    }

    @Test func `The help shows the arguments, and a mistake in them is a usage error`() async throws {
        let help = try await run("--help")
        #expect(help.status == 0)
        #expect(help.output.contains("USAGE: durable-counter <path> [<producers>]"), "\(help.output)")
        #expect(help.output.contains(" 64 "), "\(help.output)")
        for result in [try await run(), try await run("counter.sqlite", "0"), try await run("counter.sqlite", "some")] {
            #expect(result.status == 64)
            let text = result.errors.lowercased()
            #expect(text.contains("usage: durable-counter <path> [<producers>]"), "\(result.errors)")
        }
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
    func `Output that cannot be written gives one line and status 1`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(component: "Counter-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(component: "log.sqlite").path
        let result = try await run(path, to: FileHandle(forWritingAtPath: "/dev/full"))
        #expect(result.status == 1)
        #expect(result.errors == "durable-counter: standard output: No space left on device\n")
    }
}
