import Foundation
import Synchronization

/// A NATS server with JetStream on the loopback, alone or one of a cluster, whose files are in a folder.
///
/// Thread safety: all of it may be used from any thread.
public final class NatsServer: Sendable {
    /// What it is called in its cluster.
    public let name: String
    /// Where clients connect.
    public let port: Int
    /// Where other servers connect; nil: it is alone.
    public let routePort: Int?
    private let folder: String
    private let program: String
    private let process = Mutex<ServerProcess?>(nil)

    /// The version of the program that is started, as `2.10.27`.
    ///
    /// - Returns: The version.
    /// - Throws: Why it is not known.
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

    /// Starts it.
    ///
    /// - Parameters:
    ///   - name: What it is called.
    ///   - folder: Where its files are; made if it is not there.
    ///   - port: Where clients connect.
    ///   - routePort: Where other servers connect; nil: it is alone.
    ///   - routes: The ports where it connects to others, itself or by way of a proxy.
    /// - Throws: Why it cannot be started.
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
            // Servers tell others of each other. What they tell here leads nowhere, since there may be a proxy on the way.
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

    /// Starts it again, after it was killed.
    ///
    /// - Throws: Why it cannot be started.
    public func start() throws {
        let started = try ServerProcess(program, ["-c", "\(folder)/server.conf"], log: "\(folder)/server.log")
        process.withLock { $0 = started }
    }

    /// Sends it a signal, unless it has ended.
    ///
    /// - Parameter signal: Which.
    public func send(_ signal: Int32) { process.withLock { $0 }?.send(signal) }

    /// Ends it at once, as a loss of power would.
    public func kill() { process.withLock { $0.take() }?.kill() }

    /// Lets it end by itself.
    public func end() { process.withLock { $0.take() }?.end() }

    /// Whether it runs.
    public var isRunning: Bool { process.withLock { $0 }?.isRunning ?? false }

    /// Where clients connect, as an address.
    public var address: String { "nats://127.0.0.1:\(port)" }

    /// The last lines of what it has told.
    public var lastWords: String {
        let text = (try? String(contentsOfFile: "\(folder)/server.log", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(5).joined(separator: "\n")
    }
}

/// Several NATS servers that are one cluster.
///
/// Thread safety: all of it may be used from any thread.
public final class NatsCluster: Sendable {
    /// Its servers.
    public let servers: [NatsServer]

    /// Starts the servers.
    ///
    /// - Parameters:
    ///   - count: How many.
    ///   - folder: Where their files are.
    ///   - route: Gets the numbers of two servers and the second's port, and returns the port where the first finds it: a proxy's.
    /// - Throws: Why one cannot be started.
    public init(_ count: Int, folder: String, route: (Int, Int, Int) throws -> Int = { $2 }) throws {
        let ports = try freePorts(2 * count)
        servers = try (0..<count).map { number in
            let routes = try (0..<count).filter { $0 != number }.map { try route(number, $0, ports[count + $0]) }
            return try NatsServer(
                name: "n\(number + 1)", folder: "\(folder)/n\(number + 1)", port: ports[number],
                routePort: count > 1 ? ports[count + number] : nil, routes: routes)
        }
    }

    /// Where clients connect.
    public var addresses: [String] { servers.map(\.address) }

    /// Lets all of them end.
    public func end() {
        DispatchQueue.concurrentPerform(iterations: servers.count) { servers[$0].end() }
    }
}
