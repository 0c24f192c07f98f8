import AsyncHTTPClient
import Foundation
import NIOCore
import ProgramTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(3)))
struct ClusterDemoTests {
    /// A client that does not retry to connect, so an ended server is noticed at once.
    private static let client = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    private func ask(_ url: String, post body: String? = nil) async throws -> String {
        var request = HTTPClientRequest(url: url)
        if let body {
            request.method = .POST
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(string: body))
        }
        let response = try await Self.client.execute(request, timeout: .seconds(60))
        return String(buffer: try await response.body.collect(upTo: 1 << 16))
    }

    @Test(
        "cluster-demo starts three servers and three live-boards with the same boards, and leaves no process"
    )
    func demo() async throws {
        let demo = try Command(program: Command.built("cluster-demo"), [])
        var nodes: [String] = []
        while nodes.count < 3, let line = await demo.nextLine() {
            if line.hasPrefix("node") { nodes.append(String(line.split(separator: " ")[2])) }
        }
        try #require(nodes.count == 3, "\(demo.errors)")
        let made = try await ask("\(nodes[0])/boards", post: #"{"title":"Plans"}"#)
        let id = try #require(made.split(separator: "\"").dropFirst(3).first.map(String.init), "\(made)")
        for node in nodes {
            let board = try await ask("\(node)/boards/\(id)")
            #expect(board == #"{"board":{"lists":[],"title":"Plans"},"revision":1}"#)
        }
        demo.send(SIGINT)
        let end = await demo.finish()
        #expect(end.status == 0 && end.output == "stopped\n", "\(end)")
        for node in nodes {
            await #expect(throws: (any Error).self) { try await ask("\(node)/health") }
        }
    }

    /// Starts the demo with its files in a folder, and waits for its end.
    private func failed(
        _ folder: TemporaryFolder, program: URL = Command.built("cluster-demo"), _ settings: [String] = []
    ) async throws -> String {
        let end = try await Command(
            program: URL(filePath: "/usr/bin/env"), ["TMPDIR=\(folder.url.path)"] + settings + [program.path]
        ).finish()
        #expect(end.status == 1, "\(end)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty, "its files stay")
        return end.errors
    }

    @Test("A server that cannot start ends the demo with its message, and leaves no files")
    func brokenServer() async throws {
        let programs = try TemporaryFolder()
        let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo v2.15.1 || { echo boom; exit 3; }\n"
        let fake = try programs.file("nats-server", Data(script.utf8))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: fake)
        let errors = try await failed(TemporaryFolder(), ["PATH=\(programs.url.path):/usr/bin:/bin"])
        #expect(errors == "cluster-demo: the server s0 has ended: boom\n")
    }

    @Test("Without a live-board next to it the demo says what to build, and leaves no files")
    func noBoard() async throws {
        let programs = try TemporaryFolder()
        let program = programs.url.appending(component: "cluster-demo")
        try FileManager.default.copyItem(at: Command.built("cluster-demo"), to: program)
        let errors = try await failed(TemporaryFolder(), program: program)
        let board = programs.url.appending(component: "live-board").path
        #expect(errors == "cluster-demo: there is no \(board): build it with swift build --product live-board\n")
    }

    @Test("A folder that cannot be created is reported in one line")
    func noFolder() async throws {
        let end = try await Command(
            program: URL(filePath: "/usr/bin/env"), ["TMPDIR=/dev/null", Command.built("cluster-demo").path]
        ).finish()
        #expect(end.status == 1 && end.errors.hasPrefix("cluster-demo: /dev/null/"), "\(end)")
        #expect(end.errors.hasSuffix(": Not a directory\n") && end.errors.count { $0 == "\n" } == 1)
    }
}
