import Foundation
import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A server in its own process, which runs until it is ended or the last reference to it is released.
///
/// Thread safety: everything may be used from any thread.
public final class ServerProcess: @unchecked Sendable {
    private let process = Process()

    /// Starts a program, and appends its output to a file.
    ///
    /// - Parameters:
    ///   - program: The path of the program.
    ///   - arguments: Its arguments.
    ///   - log: The file, created if there is none.
    /// - Throws: The reason why it cannot be started.
    public init(_ program: String, _ arguments: [String], log: String) throws {
        let descriptor = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw ServerFailure(description: "\(log) cannot be written") }
        let output = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try process.run()
    }

    deinit { kill() }

    /// Its process ID.
    public var identifier: Int32 { process.processIdentifier }

    /// Whether it is still running.
    public var isRunning: Bool { process.isRunning }

    /// Sends it a signal, unless it has ended.
    ///
    /// - Parameter signal: The signal.
    public func send(_ signal: Int32) {
        if process.isRunning { _ = sendSignal(process.processIdentifier, signal) }
    }

    /// Waits until it has ended by itself.
    ///
    /// - Returns: Its exit status.
    public func waitUntilEnd() -> Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }

    /// Kills it, and waits until it has ended.
    public func kill() {
        send(SIGKILL)
        process.waitUntilExit()
    }

    /// Ends it in order, or kills it after five seconds.
    public func end() {
        send(SIGCONT)
        send(SIGTERM)
        let deadline = ContinuousClock.now + .seconds(5)
        while process.isRunning, .now < deadline { usleep(20_000) }
        kill()
    }
}

/// Calls the system's `kill`, which a method of that name hides.
private func sendSignal(_ process: Int32, _ signal: Int32) -> Int32 { kill(process, signal) }

/// The reason why a server is not available, in one sentence.
///
/// Thread safety: a value.
public struct ServerFailure: Error, CustomStringConvertible {
    /// The sentence.
    public let description: String

    /// Creates a failure.
    ///
    /// - Parameter description: The sentence.
    public init(description: String) { self.description = description }
}

/// Returns the path of a program, found in the folders of `PATH` and in some more.
///
/// - Parameters:
///   - name: The program.
///   - package: The Debian package that contains it.
///   - folders: Further folders to search, in this order.
/// - Returns: Its path.
/// - Throws: ``ServerFailure`` with the package's name.
public func findProgram(_ name: String, package: String, in folders: [String] = []) throws(ServerFailure) -> String {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    let candidates = (path.split(separator: ":").map(String.init) + ["/usr/sbin"] + folders).map { "\($0)/\(name)" }
    guard let found = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
        throw ServerFailure(description: "\(name) was not found: install \(package) (Debian's name)")
    }
    return found
}

/// The number of the next port to try; processes that start one after another begin far apart.
private let nextPort = Atomic(Int(getpid()) * 7_919)

/// The ports to choose from.
///
/// By default, a system assigns none of them to clients or to servers that ask for any port. So no other program gets
/// one before a server listens at it.
private let portsOfServers = 20_000..<32_000

/// Returns a port of the loopback at which nothing listens at the moment.
///
/// - Returns: The port; a different one with each call.
/// - Throws: ``ServerFailure`` if there is none.
public func freePort() throws(ServerFailure) -> Int {
    for _ in portsOfServers {
        let next = nextPort.wrappingAdd(1, ordering: .relaxed).newValue
        let port = portsOfServers.lowerBound + next % portsOfServers.count
        if try isFree(port) { return port }
    }
    throw ServerFailure(description: "there is no free port on the loopback address in \(portsOfServers)")
}

/// Returns different ports of the loopback at which nothing listens at the moment.
///
/// - Parameter count: The number of ports.
/// - Returns: The ports.
/// - Throws: ``ServerFailure`` if there are fewer.
public func freePorts(_ count: Int) throws(ServerFailure) -> [Int] {
    var ports: [Int] = []
    while ports.count < count { ports.append(try freePort()) }
    return ports
}

private func isFree(_ port: Int) throws(ServerFailure) -> Bool {
    #if canImport(Glibc)
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #else
        let descriptor = socket(AF_INET, SOCK_STREAM, 0)
    #endif
    guard descriptor >= 0 else { throw ServerFailure(description: "cannot open a socket to look for a free port") }
    defer { close(descriptor) }
    // As a server does, so that a connection closed a moment ago does not block the port.
    var yes: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    return withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
            bind(descriptor, pointer, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
}
