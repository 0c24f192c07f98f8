/// How far the reader has got.
public struct ReadingProgress: Sendable, Equatable {
    /// The name of the file, for display.
    public var file: String
    /// The number of bytes read so far.
    public var bytesRead: Int
    /// The size of the file in bytes; nil if it is unknown, as for a pipe.
    public var size: Int?
    /// Whether there was nothing more to read at that moment, in any file.
    public var isCaughtUp: Bool

    /// Creates a progress.
    ///
    /// - Parameters:
    ///   - file: The name of the file, for display.
    ///   - bytesRead: The number of bytes read so far.
    ///   - size: The size of the file in bytes; nil if it is unknown.
    ///   - isCaughtUp: Whether there was nothing more to read at that moment, in any file.
    public init(file: String, bytesRead: Int, size: Int?, isCaughtUp: Bool = false) {
        self.file = file
        self.bytesRead = bytesRead
        self.size = size
        self.isCaughtUp = isCaughtUp
    }
}
