import Foundation

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A PostgreSQL server on the loopback, with its own database cluster in a folder.
///
/// Thread safety: everything may be used from any thread.
public final class PostgresServer: Sendable {
    /// The port for clients.
    public let port: Int
    private let process: ServerProcess

    /// Creates a database cluster, and starts a server on it.
    ///
    /// - Parameter folder: An existing folder that contains nothing named `postgres`.
    /// - Throws: The reason why it cannot be started.
    public init(folder: String) throws {
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql"))?.sorted() ?? []
        let places = folders.reversed().map { "/usr/lib/postgresql/\($0)/bin" }
        let make = try findProgram("initdb", package: "postgresql", in: places)
        let serve = try findProgram("postgres", package: "postgresql", in: places)
        port = try freePort()
        let data = "\(folder)/postgres"
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        // PostgreSQL refuses to be run by root.
        var prefix: [String] = []
        if geteuid() == 0 {
            let other = try findProgram("setpriv", package: "util-linux")
            guard let user = getpwnam("postgres") else {
                throw ServerFailure(description: "there is no user postgres: install postgresql (Debian's name)")
            }
            chown(data, user.pointee.pw_uid, user.pointee.pw_gid)
            chmod(folder, 0o755)
            prefix = [other, "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        }
        func run(_ words: [String]) throws -> ServerProcess {
            try ServerProcess(words[0], Array(words.dropFirst()), log: "\(folder)/postgres.log")
        }
        let made = try run(prefix + [make, "-D", data, "-U", "flux", "-A", "trust", "--no-sync", "-E", "UTF8"])
        if made.waitUntilEnd() != 0 {
            let log = (try? String(contentsOfFile: "\(folder)/postgres.log", encoding: .utf8)) ?? ""
            throw ServerFailure(description: "initdb has failed: \(log)")
        }
        process = try run(
            prefix + [
                serve, "-D", data, "-p", String(port), "-c", "listen_addresses=127.0.0.1",
                "-c", "unix_socket_directories=", "-c", "max_connections=50",
            ])
        let deadline = ContinuousClock.now + .seconds(30)
        while true {
            let log = (try? String(contentsOfFile: "\(folder)/postgres.log", encoding: .utf8)) ?? ""
            if log.contains("ready to accept connections") { return }
            guard process.isRunning, .now < deadline else {
                process.kill()
                throw ServerFailure(description: "PostgreSQL does not start: \(log)")
            }
            usleep(50_000)
        }
    }

    /// The connection string for clients.
    public var address: String { "host=127.0.0.1 port=\(port) user=flux dbname=postgres" }

    /// Sends a signal to the server's first process, which starts another one for each connection.
    ///
    /// - Parameter signal: The signal.
    public func send(_ signal: Int32) { process.send(signal) }

    /// Kills the first process immediately, with `SIGKILL`.
    public func kill() { process.kill() }

    /// Shuts it down, or kills it after some seconds.
    public func end() {
        process.send(SIGINT)
        process.end()
    }
}
