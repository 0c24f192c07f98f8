/// How a log is read, and when a followed one begins anew.
///
/// A file that is followed begins anew when it is shorter than what was read of it, or when another file has its name.
/// Of the other file it takes notice twice before it goes there: a server writes into the old one until it has opened the
/// new one. (A file that is truncated and has grown beyond the old length before anybody looked cannot be told from one
/// that has just grown.)
struct LogSource: Sendable {
    /// How much is read at once; so much, twice, and what its lines become is all that is in flight.
    static let chunkSize = 64 * 1024

    private(set) var offset = 0
    private(set) var size: Int?
    private let path: String
    private let name: String
    private let isFollowed: Bool
    /// Whether the end of the file is no end: more may be written, or another file may take its place.
    private let isEndless: Bool
    private var descriptor: FileDescriptor
    private var splitter: LineSplitter
    private var isReplaced = false
    /// Whether it has been told that the other file cannot be read.
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
        // A pipe may be silent for long while other files grow.
        if isFollowed && size == nil && !descriptor.isReadable() { return .nothingYet }
        let chunk = try descriptor.read(atMost: Self.chunkSize)
        if !chunk.isEmpty {
            offset += chunk.count
            // The file has grown since its size was asked for.
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
        // To open a pipe is to wait for who writes into it.
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
            // Between the look and this there may be no file again: the next time will tell. One that is not for us is told of once.
            if isRefused || FileStatus(path: path) == nil { return .nothingYet }
            isRefused = true
            return .restarted([], reason: "\(error): another file has its name, and the old one is read on")
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

    /// Takes what was read of a last line that has no end yet.
    mutating func finish() -> LogLine? {
        splitter.finish()
    }
}
