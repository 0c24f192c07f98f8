import Testing

extension ExitTest.Result? {
    /// What the process wrote to standard error, if the test observed it.
    public var said: String { String(decoding: self?.standardErrorContent ?? [], as: UTF8.self) }
}
