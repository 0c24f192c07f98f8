import FluxCore

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Creates tokens, and counts those that are still alive.
final class Tokens: Sendable {
    private struct Weak { weak var token: Token? }

    private let made = FluxLock<[Weak]>([])

    func make() -> Token {
        let token = Token()
        made.withLock { $0.append(Weak(token: token)) }
        return token
    }

    var alive: Int { made.withLock { $0.count { $0.token != nil } } }
}

/// Requests the stream, and reads nothing of it.
final class DeafReader: Sendable {
    private let descriptor: Int32

    init(port: Int) throws {
        #if canImport(Glibc)
            let kind = Int32(SOCK_STREAM.rawValue)
        #else
            let kind = SOCK_STREAM
        #endif
        descriptor = socket(AF_INET, kind, 0)
        // Little fits into the buffers on the way.
        var size: Int32 = 4_096
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if status != 0 { throw Late(description: "cannot connect: \(errno)") }
        let request = Array("GET /inspect/stream HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n".utf8)
        if send(descriptor, request, request.count, 0) != request.count {
            throw Late(description: "cannot ask: \(errno)")
        }
    }

    deinit { close(descriptor) }
}
