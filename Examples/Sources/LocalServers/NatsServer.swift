import Foundation
import Synchronization

/// A NATS server with JetStream on the loopback, alone or in a cluster, with its files in a folder.
///
/// Thread safety: everything may be used from any thread.
public final class NatsServer: Sendable {
    /// Its name in the cluster.
    public let name: String
    /// The port for clients.
    public let port: Int
    /// The port for other servers; nil: it is alone.
    public let routePort: Int?
    private let folder: String
    private let program: String
    private let process = Mutex<ServerProcess?>(nil)

    /// Returns the version of the program that is started, such as `2.10.27`.
    ///
    /// - Returns: The version.
    /// - Throws: The reason why it is not known.
    public static func version() throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: try findProgram("nats-server", package: "nats-server"))
        process.arguments = ["--version"]
        process.standardOutput = output
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        guard let version = text.firstMatch(of: /v(\d+\.\d+\.\d+)/)?.1 else {
            throw ServerFailure(description: "nats-server does not report its version: \(text)")
        }
        return String(version)
    }

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - name: Its name in the cluster.
    ///   - folder: The folder of its files, created if it does not exist.
    ///   - port: The port for clients.
    ///   - routePort: The port for other servers; nil: it is alone.
    ///   - routes: The ports at which it connects to other servers, directly or through a proxy.
    /// - Throws: The reason why it cannot be started.
    public init(
        name: String, folder: String, port: Int, routePort: Int? = nil, routes: [Int] = []
    ) throws {
        program = try findProgram("nats-server", package: "nats-server")
        (self.name, self.folder, self.port, self.routePort) = (name, folder, port, routePort)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var settings = """
            server_name: "\(name)"
            listen: "127.0.0.1:\(port)"
            ping_interval: "1s"
            ping_max: 2
            write_deadline: "2s"
            jetstream { store_dir: "\(folder)/jetstream", max_mem: 256M, max_file: 8G }

            """
        if let routePort {
            // Servers announce each other's addresses. Those announced here lead nowhere, or they could bypass a proxy.
            settings += """
                cluster {
                    name: "local", listen: "127.0.0.1:\(routePort)", advertise: "127.0.0.1:\(try freePort())", no_advertise: true
                    routes: [\(routes.map { "\"nats://127.0.0.1:\($0)\"" }.joined(separator: ", "))]
                }

                """
        }
        try settings.write(toFile: "\(folder)/server.conf", atomically: true, encoding: .utf8)
        try start()
    }

    /// Starts it again after it was killed.
    ///
    /// - Throws: The reason why it cannot be started.
    public func start() throws {
        let started = try ServerProcess(program, ["-c", "\(folder)/server.conf"], log: "\(folder)/server.log")
        process.withLock { $0 = started }
    }

    /// Sends it a signal, unless it has ended.
    ///
    /// - Parameter signal: The signal.
    public func send(_ signal: Int32) { process.withLock { $0 }?.send(signal) }

    /// Kills it immediately, with `SIGKILL`.
    public func kill() { process.withLock { $0.take() }?.kill() }

    /// Ends it in order, or kills it after some seconds.
    public func end() { process.withLock { $0.take() }?.end() }

    /// Whether it is running.
    public var isRunning: Bool { process.withLock { $0 }?.isRunning ?? false }

    /// The address for clients.
    public var address: String { "nats://127.0.0.1:\(port)" }

    /// The last lines of its log.
    public var lastWords: String {
        let text = (try? String(contentsOfFile: "\(folder)/server.log", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(5).joined(separator: "\n")
    }
}

/// Several NATS servers in one cluster.
///
/// Thread safety: everything may be used from any thread.
public final class NatsCluster: Sendable {
    /// The servers of the cluster.
    public let servers: [NatsServer]

    /// Starts the servers.
    ///
    /// - Parameters:
    ///   - count: The number of servers.
    ///   - folder: The folder of their files.
    /// - Throws: The reason why a server cannot be started.
    public init(_ count: Int, folder: String) throws {
        let ports = try freePorts(2 * count)
        servers = try (0..<count).map { number in
            let routes = (0..<count).filter { $0 != number }.map { ports[count + $0] }
            return try NatsServer(
                name: "n\(number + 1)", folder: "\(folder)/n\(number + 1)", port: ports[number],
                routePort: count > 1 ? ports[count + number] : nil, routes: routes)
        }
    }

    /// The addresses for clients.
    public var addresses: [String] { servers.map(\.address) }

    /// Ends all servers in order, or kills them after some seconds.
    public func end() {
        DispatchQueue.concurrentPerform(iterations: servers.count) { servers[$0].end() }
    }
}
