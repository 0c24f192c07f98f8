/// One line of a log, as it was found: not yet looked into.
///
/// It is a slice of the chunk that was read, so cutting a chunk into lines copies nothing.
public struct LogLine: Sendable, Equatable {
    /// The name of the file, as it is to be shown.
    public var file: String
    /// The number of the line in its file; the first is 1.
    public var number: Int
    /// What stands in the line, without its line feed; of a line that is too long only the beginning.
    public var bytes: ArraySlice<UInt8>
    /// Whether the line was longer than ``LineSplitter/longestLine``.
    public var isTooLong: Bool

    /// Makes a line.
    ///
    /// - Parameters:
    ///   - file: The name of the file, as it is to be shown.
    ///   - number: The number of the line in its file; the first is 1.
    ///   - bytes: What stands in the line, without its line feed.
    ///   - isTooLong: Whether there was more than `bytes` in the line.
    public init(file: String, number: Int, bytes: ArraySlice<UInt8>, isTooLong: Bool = false) {
        self.file = file
        self.number = number
        self.bytes = bytes
        self.isTooLong = isTooLong
    }
}
