import Foundation
import ProgramTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(3)))
struct ClusterDemoTests {
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
        var request = URLRequest(url: try #require(URL(string: "\(nodes[0])/keys/b1/77")))
        request.httpMethod = "POST"
        let (answer, _) = try await URLSession.shared.data(for: request)
        #expect(String(decoding: answer, as: UTF8.self).hasPrefix("0 "))
        for node in nodes {
            let (list, _) = try await URLSession.shared.data(from: try #require(URL(string: "\(node)/keys/b1/all")))
            #expect(String(decoding: list, as: UTF8.self) == "77")
        }
        demo.interrupt()
        let end = await demo.finish()
        #expect(end.status == 0 && end.output == "stopped\n", "\(end)")
        for node in nodes {
            await #expect(throws: (any Error).self) {
                try await URLSession.shared.data(from: try #require(URL(string: "\(node)/health")))
            }
        }
    }
}
