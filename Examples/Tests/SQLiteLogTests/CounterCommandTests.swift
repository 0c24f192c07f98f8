import Foundation
import Testing

/// What durable-counter says to who calls it by hand.
@Suite struct CounterCommandTests {
    private func run(
        _ arguments: String..., to output: FileHandle? = nil
    ) throws -> (status: Int32, output: String, errors: String) {
        let process = Process()
        let (written, errors) = (Pipe(), Pipe())
        process.executableURL = Bundle.main.bundleURL.appending(component: "durable-counter")
        process.arguments = arguments
        process.standardOutput = output ?? written
        process.standardError = errors
        try process.run()
        if output != nil { try written.fileHandleForWriting.close() }
        let text = [errors, written].map {
            String(decoding: $0.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        }
        process.waitUntilExit()
        return (process.terminationStatus, text[1], text[0])
    }

    @Test func `A database that cannot be opened is one line and status 2`() throws {
        let path = "/dev/null/counter.sqlite"
        let result = try run(path)
        #expect(result.status == 2)
        #expect(result.output == "")
        #expect(result.errors.hasPrefix("durable-counter: \(path): "), "\(result.errors)")
        #expect(result.errors.filter { $0 == "\n" }.count == 1, "\(result.errors)")
    }

    @Test func `Its arguments stand in its help, and a mistake in them is a usage error`() throws {
        let help = try run("--help")
        #expect(help.status == 0)
        #expect(help.output.contains("USAGE: durable-counter <path> [<producers>]"), "\(help.output)")
        for result in [try run(), try run("counter.sqlite", "0"), try run("counter.sqlite", "some")] {
            #expect(result.status == 64)
            let text = result.errors.lowercased()
            #expect(text.contains("usage: durable-counter <path> [<producers>]"), "\(result.errors)")
        }
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
    func `What cannot be written is one line and status 1`() throws {
        let folder = FileManager.default.temporaryDirectory.appending(component: "Counter-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(component: "log.sqlite").path
        let result = try run(path, to: FileHandle(forWritingAtPath: "/dev/full"))
        #expect(result.status == 1)
        #expect(result.errors == "durable-counter: standard output: No space left on device\n")
    }
}
