import Testing

extension ExitTest.Result? {
    /// What the process has written to the standard error output, if that was observed.
    public var said: String { String(decoding: self?.standardErrorContent ?? [], as: UTF8.self) }
}
