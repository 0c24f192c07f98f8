/// What a line of an access log says, as far as the summary needs it.
public struct AccessLogEntry: Sendable, Equatable {
    /// The path that was asked for, without its query; nil if the server recorded no request that has one.
    public var path: String?
    /// The status of the response, 0 to 999; 0 if none was sent.
    public var status: Int
    /// The size of the response in bytes, without its head.
    public var bytes: Int

    /// Makes an entry.
    ///
    /// - Parameters:
    ///   - path: The path that was asked for, without its query.
    ///   - status: The status of the response, 0 to 999; 0 if none was sent.
    ///   - bytes: The size of the response in bytes, without its head.
    public init(path: String?, status: Int, bytes: Int) {
        self.path = path
        self.status = status
        self.bytes = bytes
    }
}
