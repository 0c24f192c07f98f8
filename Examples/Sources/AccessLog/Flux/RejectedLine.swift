/// A line that could not be understood, and why.
public struct RejectedLine: Sendable, Equatable {
    /// The name of the file, as it is to be shown.
    public var file: String
    /// The number of the line in its file; the first is 1.
    public var number: Int
    /// What is wrong with it.
    public var flaw: AccessLogFlaw

    /// Makes a rejected line.
    ///
    /// - Parameters:
    ///   - file: The name of the file, as it is to be shown.
    ///   - number: The number of the line in its file; the first is 1.
    ///   - flaw: What is wrong with it.
    public init(file: String, number: Int, flaw: AccessLogFlaw) {
        self.file = file
        self.number = number
        self.flaw = flaw
    }
}
