import Foundation

#if canImport(Glibc)
    import Glibc
#endif

/// What a read throws if nothing comes, although the connection is open.
public struct Silence: Error, CustomStringConvertible {
    /// The number of the system's error.
    public let number: Int32

    /// What happened.
    public var description: String { "nothing came, and the connection is open: \(String(cString: strerror(number)))" }
}

/// A connection as a hostile client would use it: byte by byte, and as slowly as it likes.
///
/// Thread safety: it may be used from any thread; two concurrent readers each get a part of the data.
public final class RawConnection: @unchecked Sendable {
    private let descriptor: Int32
    private let queue = DispatchQueue(label: "RawConnection")

    /// Connects to a port of this machine.
    ///
    /// - Parameters:
    ///   - port: The port.
    ///   - hasSmallBuffer: Whether a client that does not read soon becomes one to which nothing more can be sent.
    /// - Throws: An error if the connection cannot be opened.
    public init(port: Int, hasSmallBuffer: Bool = false) throws {
        #if canImport(Glibc)
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var patience = timeval(tv_sec: 100, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var size: Int32 = 4_096
        if hasSmallBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
            // Packets of the size used between machines keep the other side from having buffers of megabytes.
            size = 1_400
            setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_MAXSEG, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if result != 0 { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .ECONNREFUSED) }
    }

    deinit { close(descriptor) }

    /// Sends a text.
    ///
    /// - Parameter text: The text.
    /// - Returns: Whether the whole text could be sent.
    @discardableResult public func send(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        #if canImport(Glibc)
            return Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
        #else
            return Darwin.send(descriptor, bytes, bytes.count, 0) == bytes.count
        #endif
    }

    /// Closes the sending side; the other side may continue to send.
    public func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Reads what is available, or waits for it.
    ///
    /// - Parameter most: The maximum number of bytes.
    /// - Returns: The text that was read; nil if the other side has ended the connection.
    /// - Throws: ``Silence`` if nothing comes for long.
    public func read(atMost most: Int = 65_536) async throws -> String? {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { [self] in
                var bytes = [UInt8](repeating: 0, count: most)
                var (count, number) = (0, Int32(0))
                repeat {
                    count = recv(descriptor, &bytes, bytes.count, 0)
                    number = errno
                } while count < 0 && number == EINTR
                if count > 0 {
                    continuation.resume(returning: String(decoding: bytes[..<count], as: UTF8.self))
                } else if count == 0 || number == ECONNRESET {
                    continuation.resume(returning: nil)
                } else {
                    continuation.resume(throwing: Silence(number: number))
                }
            }
        }
    }

    /// Reads everything to the end.
    public func readToEnd() async throws -> String { try await read { _ in false } }

    /// Reads until there is enough, or to the end.
    ///
    /// - Parameter isEnough: Checks everything that was read so far.
    /// - Returns: Everything that was read.
    /// - Throws: ``Silence`` if nothing comes for long.
    public func read(until isEnough: (String) -> Bool) async throws -> String {
        var text = ""
        while !isEnough(text), let more = try await read() { text += more }
        return text
    }

    /// Sends a text, and then one byte after another, until the other side closes the connection.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - byte: What is sent repeatedly after the text.
    /// - Returns: What the other side has sent, and how long that took.
    /// - Throws: ``Silence`` if the other side does nothing for long.
    public func trickle(_ text: String, _ byte: String) async throws -> (said: String, duration: Duration) {
        let start = ContinuousClock.now
        send(text)
        let trickling = Task {
            while !Task.isCancelled && send(byte) { try? await Task.sleep(for: .milliseconds(200)) }
        }
        defer { trickling.cancel() }
        let said = try await readToEnd()
        return (said, ContinuousClock.now - start)
    }
}
