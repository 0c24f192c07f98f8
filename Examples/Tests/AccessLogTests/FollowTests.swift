import Foundation
import ProgramTesting
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The tests wait for what the program prints, never for time to pass.
@Suite("access-watch --follow", .serialized, .timeLimit(.minutes(3)))
struct FollowTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = try folder.file("access.log", Data(goodLine(path: "/first").utf8))
    }

    private func append(_ text: String) throws {
        let file = try #require(FileHandle(forWritingAtPath: path))
        try file.seekToEnd()
        try file.write(contentsOf: Data(text.utf8))
        try file.close()
    }

    /// Reads summaries until one has this many lines.
    private func summary(of command: Command, lines: Int) async throws -> Report {
        while true {
            let report = try Report(try #require(await command.nextLine(), "\(command.errors)"))
            try #require(report.lines <= lines)
            if report.lines == lines { return report }
        }
    }

    @Test("access-watch shows added lines, and ends on SIGINT with a summary that has the unfinished line")
    func grows() async throws {
        let command = try Command(["--follow", "--json", path])
        _ = try await summary(of: command, lines: 1)
        try append(goodLine(path: "/second") + "bad\n")
        let second = try await summary(of: command, lines: 3)
        #expect(second.malformed == 1)
        try append(goodLine(path: "/third") + goodLine(path: "/unfinished").dropLast())
        _ = try await summary(of: command, lines: 4)
        command.send(SIGINT)
        let end = await command.finish()
        #expect(end.status == 0)
        let last = try Report(end.output)
        #expect(last.lines == 5)
        #expect(last.busiestPaths.map(\.path).sorted() == ["/first", "/second", "/third", "/unfinished"])
        #expect(end.errors == "\(path):3: no identity\n")
    }

    @Test("access-watch continues after SIGHUP if that was ignored from the start, as nohup does")
    func ignoredHangUp() async throws {
        let shell = URL(filePath: "/bin/sh")
        let line = #"trap "" HUP; exec "$0" "$@""#
        let command = try Command(
            program: shell, ["-c", line, Command.accessWatch.path, "--follow", "--json", path])
        _ = try await summary(of: command, lines: 1)
        command.send(SIGHUP)
        try append(goodLine(path: "/second"))
        _ = try await summary(of: command, lines: 2)
        command.send(SIGINT)
        #expect(await command.finish().status == 0)
    }

    @Test("A truncated file is read from its beginning, and its lines are numbered from 1 again")
    func truncated() async throws {
        try append(goodLine() + "half a line")
        let command = try Command(["--follow", "--json", path])
        _ = try await summary(of: command, lines: 2)
        try Data("bad\n".utf8).write(to: URL(filePath: path), options: [])
        let report = try await summary(of: command, lines: 4)
        #expect(report.malformed == 2)
        command.send(SIGINT)
        let end = await command.finish()
        #expect(end.status == 0)
        #expect(end.errors.contains("\(path):3: no time in brackets\n"))
        #expect(end.errors.contains("\(path) was truncated: reading it from its beginning\n"))
        #expect(end.errors.hasSuffix("\(path):1: no identity\n"))
    }

    @Test("A rotated log is followed in the new file, and no line of the old one is lost")
    func rotated() async throws {
        let command = try Command(["--follow", "--json", path])
        _ = try await summary(of: command, lines: 1)
        let old = path + ".1"
        try FileManager.default.moveItem(atPath: path, toPath: old)
        let writer = try #require(FileHandle(forWritingAtPath: old))
        try writer.seekToEnd()
        try writer.write(contentsOf: Data(goodLine(path: "/late").utf8))
        _ = try folder.file("access.log", Data(goodLine(path: "/new").utf8))
        let report = try await summary(of: command, lines: 3)
        #expect(report.busiestPaths.map(\.path).sorted() == ["/first", "/late", "/new"])
        command.send(SIGINT)
        let end = await command.finish()
        #expect(end.status == 0)
        #expect(end.errors == "access-watch: \(path) was replaced: reading the new file\n")
    }

    @Test("A pipe that takes the name of a log delays nothing, and a file that takes it later is followed")
    func pipe() async throws {
        let other = path
        let first = try folder.file("first.log", Data(goodLine(path: "/first").utf8))
        let command = try Command(["--follow", "--json", first, other])
        _ = try await summary(of: command, lines: 2)
        try FileManager.default.removeItem(atPath: first)
        #expect(mkfifo(first, 0o600) == 0)
        // Each summary is printed once both files were checked.
        for lines in 3...7 {
            try append(goodLine(path: "/other"))
            _ = try await summary(of: command, lines: lines)
        }
        try FileManager.default.removeItem(atPath: first)
        _ = try folder.file("first.log", Data(goodLine(path: "/new").utf8))
        _ = try await summary(of: command, lines: 8)
        command.send(SIGTERM)
        let end = await command.finish()
        #expect(end.status == 0)
        #expect(end.errors == "access-watch: \(first) was replaced: reading the new file\n")
    }

    @Test("--inspect shows the state of the program on this machine while it follows a log")
    func inspected() async throws {
        let command = try Command(["--follow", "--json", "--inspect", "0", path])
        _ = try await summary(of: command, lines: 1)
        let told = try #require(command.errors.firstMatch(of: /inspector: (http:\S+)/), "\(command.errors)")
        let page = try #require(URL(string: String(told.1)))
        let (html, answer) = try await URLSession.shared.data(from: page)
        #expect((answer as? HTTPURLResponse)?.statusCode == 200)
        #expect(String(decoding: html, as: UTF8.self).contains("<title>Inspector</title>"))
        try append(goodLine(path: "/second"))
        _ = try await summary(of: command, lines: 2)
        let (stores, _) = try await URLSession.shared.data(from: page.appending(path: "stores"))
        #expect(String(decoding: stores, as: UTF8.self).contains("\"name\":\"summary\""))
        let (state, _) = try await URLSession.shared.data(from: page.appending(path: "stores/1"))
        #expect(String(decoding: state, as: UTF8.self).contains("requests: 2"))
        command.send(SIGINT)
        let end = await command.finish()
        #expect(end.status == 0)
        #expect(try Report(end.output).lines == 2)
    }

    @Test("--inspect reports a port that is in use, and ends the program")
    func portTaken() async throws {
        let first = try Command(["--follow", "--json", "--inspect", "0", path])
        _ = try await summary(of: first, lines: 1)
        let told = try #require(first.errors.firstMatch(of: /127\.0\.0\.1:(\d+)/), "\(first.errors)")
        let second = try await Command(["--inspect", String(told.1), path]).finish()
        #expect(second.status == 2)
        #expect(second.errors.hasPrefix("access-watch: --inspect \(told.1): "), "\(second.errors)")
        #expect(second.errors.contains("in use"), "\(second.errors)")
        first.send(SIGINT)
        #expect(await first.finish().status == 0)
    }

    #if os(Linux)
        @Test("A large file with many paths is read in less than 100 MiB")
        func memory() async throws {
            let agent = String(repeating: "x", count: 900)
            let log = try #require(FileHandle(forWritingAtPath: path))
            let count = 200_000
            for start in stride(from: 0, to: count, by: 1_000) {
                let lines = (start..<start + 1_000).map { index in
                    goodLine(path: "/\(index % 3 == 0 ? index : index % 7)/\(index % 2)").replacing("test", with: agent)
                }
                try log.write(contentsOf: Data(lines.joined().utf8))
            }
            try log.close()
            let command = try Command(["--follow", "--json", path])
            let report = try await summary(of: command, lines: count)
            let status = try String(contentsOfFile: "/proc/\(command.identifier)/status", encoding: .utf8)
            command.send(SIGINT)
            #expect(await command.finish().status == 0)
            #expect(report.requests == count)
            let peak = try #require(status.firstMatch(of: /VmHWM:\s+(\d+) kB/))
            let kibibytes = try #require(Int(peak.1))
            #expect(kibibytes < 100 * 1024)
        }
    #endif
}
