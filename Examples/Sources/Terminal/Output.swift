import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// An output that writes text at once: text for a pipe must not wait for a buffer to fill.
///
/// Thread safety: may be used from any thread; a text that the system accepts in one write stays in one piece.
public struct Output: Sendable {
    /// Standard output.
    public static let standard = Output(descriptor: STDOUT_FILENO, name: "standard output")
    /// Standard error, for messages about failures.
    public static let errors = Output(descriptor: STDERR_FILENO, name: "standard error")

    private static let endsWithClosedPipes = Atomic<Bool>(false)

    private let descriptor: Int32
    private let name: String

    private init(descriptor: Int32, name: String) { (self.descriptor, self.name) = (descriptor, name) }

    /// Opens a file of lines for appending, creating it if needed; an incomplete last line is removed.
    ///
    /// - Parameter path: The path of the file, which stays open.
    /// - Throws: ``SystemFailure`` if it cannot be opened.
    public init(appendingTo path: String) throws(SystemFailure) {
        self.init(descriptor: open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0o600), name: path)
        if descriptor < 0 { throw SystemFailure(path) }
        let size = lseek(descriptor, 0, SEEK_END)
        var (end, byte) = (size, UInt8(0))
        while end > 0 {
            if pread(descriptor, &byte, 1, end - 1) != 1 { throw SystemFailure(path) }
            if byte == UInt8(ascii: "\n") { break }
            end -= 1
        }
        if end < size && ftruncate(descriptor, end) != 0 { throw SystemFailure(path) }
    }

    /// Whether the output is a terminal.
    public var isTerminal: Bool { isatty(descriptor) == 1 }

    /// Makes a write to a closed pipe end the program quietly, even if the parent process ignored SIGPIPE.
    public static func endWithClosedPipes() {
        endsWithClosedPipes.store(true, ordering: .relaxed)
        signal(SIGPIPE, SIG_DFL)
    }

    /// Writes a text.
    ///
    /// - Parameter text: The text.
    /// - Throws: ``SystemFailure`` if writing fails; the rest of the text is dropped.
    public func write(_ text: String) throws(SystemFailure) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { writeBytes(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EPIPE && Self.endsWithClosedPipes.load(ordering: .relaxed) {
                // Other code, such as a server, may have ignored the signal meanwhile.
                signal(SIGPIPE, SIG_DFL)
                raise(SIGPIPE)
            }
            if count < 0 && errno != EINTR { throw SystemFailure(name) }
            rest = rest.dropFirst(max(0, count))
        }
    }
}

/// A failure that the system reports for a file, as one line.
///
/// Thread safety: a value.
public struct SystemFailure: Error, CustomStringConvertible {
    /// The name of the file, and why it cannot be used.
    public let description: String

    /// Describes why the preceding system call failed.
    ///
    /// - Parameter name: The name of the file.
    public init(_ name: String) { description = "\(name): \(String(cString: strerror(errno)))" }
}

/// The system's `write`, which the method of that name hides.
private func writeBytes(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int) -> Int {
    write(descriptor, start, count)
}
