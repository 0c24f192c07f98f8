import Foundation
import ProgramTesting
import Testing

@Suite("access-watch")
struct CommandTests {
    private let folder: TemporaryFolder
    private let mixed = goodLine(path: "/a") + "\r\nnonsense\n" + goodLine(path: "/b?c").dropLast()

    init() throws {
        folder = try TemporaryFolder()
    }

    @Test("access-watch prints totals, classes and paths as aligned columns")
    func text() async throws {
        let log = String(repeating: goodLine(path: "/busy"), count: 1_234) + mixed
        let path = try folder.file("log", Data(log.utf8))
        let result = try await Command(["--paths", "2", path]).finish()
        #expect(result.status == 0)
        #expect(
            result.output == """
                lines       1,238
                malformed       2
                requests    1,236
                bytes      12,360

                status  requests   share
                1xx            0    0.0%
                2xx        1,236  100.0%
                3xx            0    0.0%
                4xx            0    0.0%
                5xx            0    0.0%

                requests  share  path
                   1,234  99.8%  /busy
                       1   0.1%  /a

                """
        )
        #expect(result.errors == "\(path):1236: the line is empty\n\(path):1237: no identity\n")
    }

    @Test("Standard input is read, named or not", arguments: [["--json"], ["--json", "-"], ["--json", "--follow"]])
    func standardInput(arguments: [String]) async throws {
        let result = try await Command(arguments, input: try folder.file("log", Data(mixed.utf8))).finish()
        let report = try Report(try #require(result.output.split(separator: "\n").last.map(String.init)))
        #expect(result.status == 0)
        #expect(report.lines == 4 && report.malformed == 2 && report.requests == 2 && report.bytes == 20)
        #expect(report.busiestPaths.map(\.path) == ["/a", "/b"])
        #expect(result.errors == "standard input:2: the line is empty\nstandard input:3: no identity\n")
    }

    @Test("An empty file has no line")
    func empty() async throws {
        let result = try await Command([try folder.file("log", Data())]).finish()
        #expect(result.status == 0)
        #expect(result.output.hasPrefix("lines      0\n"))
    }

    @Test("access-watch reports malformed lines up to a limit, and counts the others")
    func boundedReports() async throws {
        let path = try folder.file("log", Data("1\n2\n3\n4\n".utf8))
        let result = try await Command(["--reports", "1", path]).finish()
        #expect(result.errors == "\(path):1: no identity\naccess-watch: 3 more malformed lines\n")
    }

    @Test("Control characters in a log do not reach the terminal")
    func harmless() async throws {
        let path = try folder.file("log", Data((goodLine(path: "/\u{1B}[2J\u{202E}é") + "\u{1B}]0; \u{7}x\n").utf8))
        let result = try await Command([path]).finish()
        #expect(result.output.contains(#"/\u{1B}[2J\u{202E}é"#))
        #expect(!result.output.contains("\u{1B}") && !result.errors.contains("\u{1B}"))
    }

    @Test("A file that cannot be read gives one line and status 2, before anything is read")
    func unreadable() async throws {
        let good = try folder.file("log", Data(mixed.utf8))
        for (path, reason) in [
            (folder.url.path + "/missing", "No such file or directory"), (folder.url.path, "Is a directory"),
        ] {
            let result = try await Command([good, path]).finish()
            #expect(result.status == 2)
            #expect(result.output == "")
            #expect(result.errors == "access-watch: \(path): \(reason)\n")
        }
    }

    /// Runs a line of the shell, which names the program and the log as `"$0" "$@"`.
    private func shell(_ line: String) async throws -> (status: Int32, output: String, errors: String) {
        let path = try folder.file("log", Data(goodLine(path: "/a").utf8))
        let shell = URL(filePath: "/bin/sh")
        return try await Command(program: shell, ["-c", line, Command.accessWatch.path, path]).finish()
    }

    @Test(
        "A summary that cannot be written gives one line and status 1",
        .enabled(if: FileManager.default.fileExists(atPath: "/dev/full")), arguments: ["", "--json", "--follow"])
    func full(option: String) async throws {
        let result = try await shell(#"exec "$0" \#(option) "$@" > /dev/full"#)
        #expect(result.status == 1)
        #expect(result.errors == "access-watch: standard output: No space left on device\n")
    }

    @Test("A closed pipe ends the program quietly, even if SIGPIPE is ignored", arguments: ["", "trap '' PIPE;"])
    func closedPipe(before: String) async throws {
        let pipe = folder.url.appending(component: "pipe").path
        #expect(mkfifo(pipe, 0o600) == 0)
        // Opens both ends, and then keeps only the one for writing: there is no reader from the start.
        let result = try await shell(#"\#(before) exec 3<>'\#(pipe)' 4>'\#(pipe)' 3<&-; exec "$0" "$@" >&4"#)
        #expect(result.status == SIGPIPE)
        #expect(result.errors == "")
    }

    @Test("A mistake in the options is a usage error")
    func usage() async throws {
        let result = try await Command(["--paths=-1"]).finish()
        #expect(result.status == 64)
        #expect(result.errors.hasPrefix("Error: --paths must not be negative.\nUsage: access-watch"))
        #expect(try await Command(["--help"]).finish().output.contains(" 64 "))
    }
}
