/// One line of a log, as found in the file and not yet parsed.
///
/// It is a slice of the chunk that was read, so cutting a chunk into lines copies nothing.
public struct LogLine: Sendable, Equatable {
    /// The name of the file, for display.
    public var file: String
    /// The number of the line in its file; the first is 1.
    public var number: Int
    /// The content of the line without its line feed; only the beginning if the line is too long.
    public var bytes: ArraySlice<UInt8>
    /// Whether the line was longer than ``LineSplitter/longestLine``.
    public var isTooLong: Bool

    /// Creates a line.
    ///
    /// - Parameters:
    ///   - file: The name of the file, for display.
    ///   - number: The number of the line in its file; the first is 1.
    ///   - bytes: The content of the line, without its line feed.
    ///   - isTooLong: Whether the line had more than `bytes`.
    public init(file: String, number: Int, bytes: ArraySlice<UInt8>, isTooLong: Bool = false) {
        self.file = file
        self.number = number
        self.bytes = bytes
        self.isTooLong = isTooLong
    }
}
