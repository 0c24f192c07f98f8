#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Where text goes, at once: what a pipe is told must not wait for a buffer to fill.
struct Stream: Sendable {
    static let standardOutput = Stream(descriptor: STDOUT_FILENO)
    static let standardError = Stream(descriptor: STDERR_FILENO)

    private let descriptor: Int32

    let isTerminal: Bool

    private init(descriptor: Int32) {
        self.descriptor = descriptor
        isTerminal = isatty(descriptor) == 1
    }

    /// Has the write into a pipe that nobody reads end the program, quietly, also where whoever started it would not.
    static func endWithClosedPipes() {
        signal(SIGPIPE, SIG_DFL)
    }

    /// Writes a text; returns what the system says where that fails, and drops the rest.
    func write(_ text: String) -> String? {
        var text = text
        return text.withUTF8 { buffer in
            var rest = UnsafeRawBufferPointer(buffer)
            while let start = rest.baseAddress, !rest.isEmpty {
                let count = writeBytes(descriptor, start, rest.count)
                if count < 0 && errno != EINTR { return String(cString: strerror(errno)) }
                rest = UnsafeRawBufferPointer(rebasing: rest[max(count, 0)...])
            }
            return nil
        }
    }
}

/// The system's `write`, which the method of that name hides.
private func writeBytes(_ descriptor: Int32, _ start: UnsafeRawPointer, _ count: Int) -> Int {
    write(descriptor, start, count)
}
