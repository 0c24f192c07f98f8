/// Cuts chunks of a file into lines; a pure state machine, so tests need no file.
///
/// Between two chunks it keeps only the beginning of one line, at most ``longestLine`` bytes of it.
public struct LineSplitter: Sendable {
    /// The maximum number of bytes that are kept of a line.
    ///
    /// Servers limit the head of a request to far less: httpd a field to 8 KiB, nginx the whole head to 32 KiB. Each of
    /// these bytes takes at most four in the log.
    public static let longestLine = 128 * 1024

    private let file: String
    private var number = 0
    /// The beginning of a line whose end has not been read yet.
    private var partial: [UInt8] = []
    private var isTooLong = false
    private var isInLine = false

    /// Creates a splitter that has seen nothing of its file.
    ///
    /// - Parameter file: The name of the file, for display.
    public init(file: String) {
        self.file = file
    }

    /// Accepts the next chunk and returns the lines that end in it.
    ///
    /// - Complexity: O(*n*) for *n* bytes of the chunk.
    public mutating func split(_ chunk: [UInt8]) -> [LogLine] {
        var lines: [LogLine] = []
        var rest = chunk[...]
        while let end = rest.find(UInt8(ascii: "\n")) {
            lines.append(line(endingWith: rest[..<end]))
            rest = rest[(end + 1)...]
        }
        if !rest.isEmpty { keep(rest) }
        return lines
    }

    /// Returns the last line if the file does not end with a line feed.
    public mutating func finish() -> LogLine? {
        isInLine ? line(endingWith: []) : nil
    }

    private mutating func line(endingWith bytes: ArraySlice<UInt8>) -> LogLine {
        number += 1
        if !isInLine && bytes.count <= Self.longestLine { return LogLine(file: file, number: number, bytes: bytes) }
        keep(bytes)
        defer { (partial, isTooLong, isInLine) = ([], false, false) }
        return LogLine(file: file, number: number, bytes: partial[...], isTooLong: isTooLong)
    }

    private mutating func keep(_ bytes: ArraySlice<UInt8>) {
        isInLine = true
        let room = Self.longestLine - partial.count
        partial += bytes.prefix(room)
        if bytes.count > room { isTooLong = true }
    }
}
