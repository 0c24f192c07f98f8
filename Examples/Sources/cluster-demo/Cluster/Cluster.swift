import Foundation
import LocalServers
import Synchronization
import Terminal

/// Three NATS servers and three nodes on the loopback, with a link between any two that communicate.
final class Cluster: Sendable {
    /// The program that the nodes run; it takes `--port`, `--log` and `--stream`.
    struct NodeProgram {
        let path: String
        let arguments: [String]

        /// This program, as the smallest kind of node.
        static let own = NodeProgram(path: Bundle.main.executablePath ?? CommandLine.arguments[0], arguments: ["node"])
        /// live-board, which is built together with this program.
        static let board = NodeProgram(
            path: Bundle.main.bundleURL.appending(component: "live-board").path, arguments: [])
    }

    static let stream = "demo"
    let servers: [NatsServer]
    let nodes: [NodeProcess]
    private let folder: String
    /// The links by the names of their two ends, the connecting one first.
    private let links: [String: Link]

    /// Starts everything; without a program, only the servers.
    init(program: NodeProgram?) async throws {
        if let path = program?.path, !FileManager.default.isExecutableFile(atPath: path) {
            let name = path.split(separator: "/").last ?? ""
            throw ServerFailure(description: "there is no \(path): build it with swift build --product \(name)")
        }
        let folder = NSTemporaryDirectory() + "/cluster-demo-\(UUID())"
        if mkdir(folder, 0o700) != 0 { throw SystemFailure(folder) }
        var servers: [NatsServer] = []
        var nodes: [NodeProcess] = []
        var isStarted = false
        // Ends what was started, before its files are removed.
        defer {
            if !isStarted {
                for node in nodes { node.kill() }
                for server in servers { server.kill() }
                try? FileManager.default.removeItem(atPath: folder)
            }
        }
        let ports = try freePorts(9)
        var links: [String: Link] = [:]
        for from in 0..<3 {
            for to in 0..<3 {
                if from != to { links["s\(from) s\(to)"] = try await Link(to: ports[3 + to]) }
                links["n\(from) s\(to)"] = try await Link(to: ports[to])
            }
        }
        for number in 0..<3 {
            servers.append(
                try NatsServer(
                    name: "s\(number)", folder: "\(folder)/s\(number)", port: ports[number],
                    routePort: ports[3 + number],
                    routes: (0..<3).compactMap { links["s\(number) s\($0)"]?.port }))
        }
        if let program {
            for number in 0..<3 {
                let log = (0..<3).compactMap { links["n\(number) s\($0)"]?.port }.map { "nats://127.0.0.1:\($0)" }
                nodes.append(
                    try NodeProcess(
                        name: "n\(number)", port: ports[6 + number], program: program.path,
                        arguments: program.arguments + [
                            "--port", String(ports[6 + number]), "--log", log.joined(separator: ","), "--stream",
                            Self.stream,
                        ], output: "\(folder)/n\(number).log"))
            }
        }
        (self.folder, self.links, self.servers, self.nodes) = (folder, links, servers, nodes)
        isStarted = true
    }

    /// The servers' addresses for clients that use no link.
    var addresses: [String] { servers.map(\.address) }

    /// Cuts or restores everything between two servers or nodes, given by their names.
    func cut(_ one: String, _ other: String, _ isCut: Bool) {
        for name in ["\(one) \(other)", "\(other) \(one)"] { links[name]?.cut(isCut) }
    }

    /// Ends everything that was started, and removes its files.
    func end() {
        for link in links.values { link.cut(false) }
        DispatchQueue.concurrentPerform(iterations: nodes.count) { nodes[$0].end() }
        DispatchQueue.concurrentPerform(iterations: servers.count) { servers[$0].end() }
        for link in links.values { link.close() }
        try? FileManager.default.removeItem(atPath: folder)
    }
}

/// A node as a process, which can be killed and started again.
final class NodeProcess: Sendable {
    let name: String
    let port: Int
    private let program: String
    private let arguments: [String]
    private let output: String
    private let process = Mutex<ServerProcess?>(nil)

    init(name: String, port: Int, program: String, arguments: [String], output: String) throws {
        (self.name, self.port, self.program) = (name, port, program)
        (self.arguments, self.output) = (arguments, output)
        try start()
    }

    var address: String { "http://127.0.0.1:\(port)" }

    func start() throws {
        let started = try ServerProcess(program, arguments, log: output)
        process.withLock { $0 = started }
    }

    func send(_ signal: Int32) { process.withLock { $0 }?.send(signal) }
    func kill() { process.withLock { $0.take() }?.kill() }
    func end() { process.withLock { $0.take() }?.end() }
    var isRunning: Bool { process.withLock { $0 }?.isRunning ?? false }

    /// The last lines of its output.
    var lastWords: String {
        let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(5).joined(separator: "\n")
    }
}
