import AsyncHTTPClient
import NIOCore
import ProgramTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(3)))
struct ClusterDemoTests {
    /// One that does not try again to connect: what has ended is known at once.
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
        "cluster-demo starts three servers and three live-boards, which have the same boards, and leaves no process behind"
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
        demo.interrupt()
        let end = await demo.finish()
        #expect(end.status == 0 && end.output == "stopped\n", "\(end)")
        for node in nodes {
            await #expect(throws: (any Error).self) { try await ask("\(node)/health") }
        }
    }
}
