import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Where text goes, at once: what a pipe is told must not wait for a buffer to fill.
///
/// Thread safety: all of it may be used from any thread; a text that the system takes at once is in one piece.
public struct Output: Sendable {
    /// What a program prints.
    public static let standard = Output(descriptor: STDOUT_FILENO, name: "standard output")
    /// Where a program tells what went wrong.
    public static let errors = Output(descriptor: STDERR_FILENO, name: "standard error")

    private static let endsWithClosedPipes = Atomic<Bool>(false)

    private let descriptor: Int32
    private let name: String

    private init(descriptor: Int32, name: String) { (self.descriptor, self.name) = (descriptor, name) }

    /// Writes to the end of a file of lines, which is made if there is none; a last line that was cut short is cut away.
    ///
    /// - Parameter path: The file; it stays open.
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

    /// Whether somebody may look at it.
    public var isTerminal: Bool { isatty(descriptor) == 1 }

    /// Has the write into a pipe that nobody reads end the program, quietly, also where whoever started it would not.
    public static func endWithClosedPipes() {
        endsWithClosedPipes.store(true, ordering: .relaxed)
        signal(SIGPIPE, SIG_DFL)
    }

    /// Writes a text.
    ///
    /// - Parameter text: The text.
    /// - Throws: ``SystemFailure`` where that fails; the rest is dropped.
    public func write(_ text: String) throws(SystemFailure) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { writeBytes(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EPIPE && Self.endsWithClosedPipes.load(ordering: .relaxed) {
                // Others may have had the signal ignored meanwhile, as servers do.
                signal(SIGPIPE, SIG_DFL)
                raise(SIGPIPE)
            }
            if count < 0 && errno != EINTR { throw SystemFailure(name) }
            rest = rest.dropFirst(max(0, count))
        }
    }
}

/// What the system says of a file, as one line.
///
/// Thread safety: a value.
public struct SystemFailure: Error, CustomStringConvertible {
    /// The file, and why it cannot be used.
    public let description: String

    /// Tells of the call before, which has failed.
    ///
    /// - Parameter name: The file.
    public init(_ name: String) { description = "\(name): \(String(cString: strerror(errno)))" }
}

/// The system's `write`, which the method of that name hides.
private func writeBytes(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int) -> Int {
    write(descriptor, start, count)
}
