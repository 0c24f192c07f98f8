import Dispatch
import Synchronization

/// A log that is read from its beginning, chunk by chunk: a file, a pipe or the standard input.
///
/// Reading may block, and the threads that run tasks are few, so reading has its own queue.
///
/// Thread safety: may be used from any thread; concurrent reads run one after the other.
public final class LogFile: Sendable {
    /// The result of one read.
    public enum Finding: Sendable {
        /// These lines; more may be available at once.
        case lines([LogLine])
        /// The last lines before the file starts over; or none, if the file that took its name cannot be read.
        case restarted([LogLine], reason: String)
        /// Nothing yet.
        case nothingYet
        /// Nothing, and nothing will follow.
        case end
    }

    /// The name of the file, for display.
    public let name: String

    private let source: Mutex<LogSource>
    private let queue = DispatchQueue(label: "LogFile")

    /// Opens a log.
    ///
    /// - Parameters:
    ///   - path: The path of the log; `-` for the standard input.
    ///   - isFollowed: Whether to wait for more at the end of the file, and of any file that takes its place.
    /// - Throws: ``LogFileError`` if it cannot be opened or is a directory.
    public init(path: String, isFollowed: Bool = false) throws(LogFileError) {
        name = path == "-" ? "standard input" : path
        source = Mutex(try LogSource(path: path, name: name, isFollowed: isFollowed))
    }

    /// How much has been read, and how much there is.
    public var progress: ReadingProgress {
        source.withLock { ReadingProgress(file: name, bytesRead: $0.offset, size: $0.size) }
    }

    /// Reads the next chunk; does not wait for more at the end of a followed file.
    ///
    /// - Throws: ``LogFileError`` if it cannot be read.
    public func read() async throws(LogFileError) -> Finding {
        let result = await withCheckedContinuation { continuation in
            queue.async { [self] in
                continuation.resume(returning: source.withLock { $0.readResult() })
            }
        }
        return try result.get()
    }

    /// Returns the beginning of a last line whose end has not been written yet; nil if there is none.
    func finish() -> LogLine? {
        source.withLock { $0.finish() }
    }
}

/// An error that says why a log cannot be read.
public struct LogFileError: Error, Sendable, Equatable, CustomStringConvertible {
    /// One line with the path and the system's reason.
    public let description: String

    init(_ name: String, _ reason: String) {
        description = "\(name): \(reason)"
    }
}
