import AsyncHTTPClient
import ProgramTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(3)))
struct ClusterDemoTests {
    private func ask(_ url: String, post: Bool = false) async throws -> String {
        var request = HTTPClientRequest(url: url)
        if post { request.method = .POST }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(20))
        return String(buffer: try await response.body.collect(upTo: 1 << 16))
    }

    @Test("cluster-demo starts three servers and three nodes, which share one state, and leaves no process behind")
    func demo() async throws {
        let demo = try Command(program: Command.built("cluster-demo"), [])
        var nodes: [String] = []
        while nodes.count < 3, let line = await demo.nextLine() {
            if line.hasPrefix("node") {
                nodes.append(String(line.split(separator: " ")[2].dropLast("/keys/KEY,".count)))
            }
        }
        try #require(nodes.count == 3, "\(demo.errors)")
        let index = try await ask("\(nodes[0])/keys/b1/77", post: true)
        #expect(index.hasPrefix("0 "))
        for node in nodes {
            let list = try await ask("\(node)/keys/b1/all")
            #expect(list == "77")
        }
        demo.interrupt()
        let end = await demo.finish()
        #expect(end.status == 0 && end.output == "stopped\n", "\(end)")
        for node in nodes {
            await #expect(throws: (any Error).self) { try await ask("\(node)/health") }
        }
    }
}
