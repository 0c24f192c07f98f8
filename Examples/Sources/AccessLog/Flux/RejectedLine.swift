/// A line that could not be understood, and the reason.
public struct RejectedLine: Sendable, Equatable {
    /// The name of the file, for display.
    public var file: String
    /// The number of the line in its file; the first is 1.
    public var number: Int
    /// What is wrong with the line.
    public var flaw: AccessLogFlaw

    /// Creates a rejected line.
    ///
    /// - Parameters:
    ///   - file: The name of the file, for display.
    ///   - number: The number of the line in its file; the first is 1.
    ///   - flaw: What is wrong with the line.
    public init(file: String, number: Int, flaw: AccessLogFlaw) {
        self.file = file
        self.number = number
        self.flaw = flaw
    }
}
