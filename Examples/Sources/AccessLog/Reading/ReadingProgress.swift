/// How far the reader has come.
public struct ReadingProgress: Sendable, Equatable {
    /// The name of the file, as it is to be shown.
    public var file: String
    /// How much of it has been read, in bytes.
    public var bytesRead: Int
    /// The size of the file in bytes; nil where there is no telling, as for a pipe.
    public var size: Int?
    /// Whether there was nothing more to read at that moment, in any file.
    public var isCaughtUp: Bool

    /// Makes a progress.
    ///
    /// - Parameters:
    ///   - file: The name of the file, as it is to be shown.
    ///   - bytesRead: How much of it has been read, in bytes.
    ///   - size: The size of the file in bytes; nil where there is no telling.
    ///   - isCaughtUp: Whether there was nothing more to read at that moment, in any file.
    public init(file: String, bytesRead: Int, size: Int?, isCaughtUp: Bool = false) {
        self.file = file
        self.bytesRead = bytesRead
        self.size = size
        self.isCaughtUp = isCaughtUp
    }
}
