/// Reads a log chunk by chunk, and decides when a followed one is read from its beginning again.
///
/// A followed file starts over when it is shorter than what has been read of it, or when another file has taken its
/// name. The source switches to the other file only after noticing it twice, because a server writes to the old file
/// until it has opened the new one. (A file that was truncated and has since grown beyond its old length cannot be
/// distinguished from one that has only grown.)
struct LogSource: Sendable {
    /// The size of a chunk; two chunks, and what their lines become, are all that is in flight.
    static let chunkSize = 64 * 1024

    private(set) var offset = 0
    private(set) var size: Int?
    private let path: String
    private let name: String
    private let isFollowed: Bool
    /// Whether reading continues at the end of the file: more may be written, or another file may take its place.
    private let isEndless: Bool
    private var descriptor: FileDescriptor
    private var splitter: LineSplitter
    private var isReplaced = false
    /// Whether it has been reported that the other file cannot be read.
    private var isRefused = false
    private var isAtEnd = false

    init(path: String, name: String, isFollowed: Bool) throws(LogFileError) {
        self.path = path
        self.name = name
        descriptor = try FileDescriptor(path: path, name: name)
        let status = try descriptor.status()
        self.isFollowed = isFollowed
        isEndless = isFollowed && status.isRegular && path != "-"
        size = status.isRegular ? status.size : nil
        splitter = LineSplitter(file: name)
    }

    mutating func readResult() -> Result<LogFile.Finding, LogFileError> {
        do throws(LogFileError) {
            return .success(try read())
        } catch {
            return .failure(error)
        }
    }

    private mutating func read() throws(LogFileError) -> LogFile.Finding {
        if isAtEnd { return .end }
        // A pipe may be silent for a long time while other files grow.
        if isFollowed && size == nil && !descriptor.isReadable() { return .nothingYet }
        let chunk = try descriptor.read(atMost: Self.chunkSize)
        if !chunk.isEmpty {
            offset += chunk.count
            // The file may have grown since its size was read.
            if let known = size { size = max(known, offset) }
            return .lines(splitter.split(chunk))
        }
        if isEndless { return try lookForMore() }
        isAtEnd = true
        return splitter.finish().map { .lines([$0]) } ?? .end
    }

    private mutating func lookForMore() throws(LogFileError) -> LogFile.Finding {
        let now = try descriptor.status()
        size = now.size
        if now.size < offset {
            try descriptor.rewind()
            return restart(reason: "\(name) was truncated: reading it from its beginning")
        }
        // Opening a pipe would wait for a writer.
        guard let other = FileStatus(path: path), other.isRegular, other.id != now.id else {
            (isReplaced, isRefused) = (false, false)
            return .nothingYet
        }
        guard isReplaced else {
            isReplaced = true
            return .nothingYet
        }
        do {
            descriptor = try FileDescriptor(path: path, name: name)
        } catch {
            // The file may be gone again since the check; the next attempt will tell. An unreadable file is reported
            // once.
            if isRefused || FileStatus(path: path) == nil { return .nothingYet }
            isRefused = true
            return .restarted([], reason: "\(error): another file has its name; still reading the old one")
        }
        size = other.size
        return restart(reason: "\(name) was replaced: reading the new file")
    }

    private mutating func restart(reason: String) -> LogFile.Finding {
        defer {
            splitter = LineSplitter(file: name)
            offset = 0
            (isReplaced, isRefused) = (false, false)
        }
        return .restarted(splitter.finish().map { [$0] } ?? [], reason: reason)
    }

    /// Returns what was read of a last line that has no end yet.
    mutating func finish() -> LogLine? {
        splitter.finish()
    }
}
