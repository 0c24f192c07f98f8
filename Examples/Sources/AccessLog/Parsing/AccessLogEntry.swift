/// The content of a line in an access log, as far as the summary needs it.
public struct AccessLogEntry: Sendable, Equatable {
    /// The requested path without its query; nil if the server recorded no request that has one.
    public var path: String?
    /// The status of the response, 0 to 999; 0 if none was sent.
    public var status: Int
    /// The size of the response in bytes, without its head.
    public var bytes: Int

    /// Creates an entry.
    ///
    /// - Parameters:
    ///   - path: The requested path, without its query.
    ///   - status: The status of the response, 0 to 999; 0 if none was sent.
    ///   - bytes: The size of the response in bytes, without its head.
    public init(path: String?, status: Int, bytes: Int) {
        self.path = path
        self.status = status
        self.bytes = bytes
    }
}
