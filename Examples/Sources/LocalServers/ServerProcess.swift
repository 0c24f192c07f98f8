import Foundation
import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A server that runs as a process of its own, until it is told to end or the last reference to it goes.
///
/// Thread safety: all of it may be used from any thread.
public final class ServerProcess: @unchecked Sendable {
    private let process = Process()

    /// Starts a program, whose output goes to the end of a file.
    ///
    /// - Parameters:
    ///   - program: Where it is.
    ///   - arguments: What it is called with.
    ///   - log: The file, which is made if there is none.
    /// - Throws: Why it cannot be started.
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

    /// Its number.
    public var identifier: Int32 { process.processIdentifier }

    /// Whether it has not ended.
    public var isRunning: Bool { process.isRunning }

    /// Sends it a signal, unless it has ended.
    ///
    /// - Parameter signal: Which.
    public func send(_ signal: Int32) {
        if process.isRunning { _ = sendSignal(process.processIdentifier, signal) }
    }

    /// Ends it at once, and returns when it has gone.
    public func kill() {
        send(SIGKILL)
        process.waitUntilExit()
    }

    /// Lets it end by itself, for some seconds; then at once.
    public func end() {
        send(SIGCONT)
        send(SIGTERM)
        let deadline = ContinuousClock.now + .seconds(5)
        while process.isRunning, .now < deadline { usleep(20_000) }
        kill()
    }
}

/// The system's `kill`, which a method of that name hides.
private func sendSignal(_ process: Int32, _ signal: Int32) -> Int32 { kill(process, signal) }

/// Why a server is not there, in one sentence.
///
/// Thread safety: a value.
public struct ServerFailure: Error, CustomStringConvertible {
    /// The sentence.
    public let description: String

    /// Makes one.
    ///
    /// - Parameter description: The sentence.
    public init(description: String) { self.description = description }
}

/// Looks for a program in the folders of `PATH`, and in some more.
///
/// - Parameters:
///   - name: The program.
///   - package: The Debian package that has it.
///   - folders: Where else it may be; the first that has it.
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

/// Where this process looks for the next port: processes that start after one another look far from each other.
private let nextPort = Atomic(Int(getpid()) * 7_919)

/// Ports that are given, unless a system is set up otherwise, to nobody who connects or asks for any: so nobody else takes one
/// before a server listens there.
private let portsOfServers = 20_000..<32_000

/// A port of the loopback that nobody listens at, at the moment.
///
/// - Returns: The port; another one with each call.
/// - Throws: ``ServerFailure`` where there is none.
public func freePort() throws(ServerFailure) -> Int {
    for _ in portsOfServers {
        let next = nextPort.wrappingAdd(1, ordering: .relaxed).newValue
        let port = portsOfServers.lowerBound + next % portsOfServers.count
        if try isFree(port) { return port }
    }
    throw ServerFailure(description: "there is no free port on the loopback address in \(portsOfServers)")
}

/// Ports of the loopback that nobody listens at, at the moment, all different.
///
/// - Parameter count: How many.
/// - Returns: The ports.
/// - Throws: ``ServerFailure`` where there are not so many.
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
    // As a server asks: what has closed a moment ago is in nobody's way.
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
