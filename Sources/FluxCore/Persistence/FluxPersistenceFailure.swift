#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// Something that a store could not load, save, append or compact, and when it tries again.
///
/// Thread safety: a value.
nonisolated public struct FluxPersistenceFailure: Error, CustomStringConvertible {
    /// What was tried.
    ///
    /// Thread safety: a value.
    public enum Operation: String, Sendable {
        /// The stored state, or the log, was to be read.
        case load
        /// The state was to be saved.
        case save
        /// Actions were to be appended to the log.
        case append
        /// A snapshot was to take the place of the actions in the log.
        case compact
    }

    /// What was tried.
    public let operation: Operation
    /// Why it did not work, as the persistence or the log has thrown it.
    public let error: any Error
    /// The how manieth attempt in a row it was, counted from 1.
    public let attempt: Int
    /// When it is tried again, as a delay from now; nil: it is not.
    public let retryAfter: Swift.Duration?

    /// One line that says all of it.
    public var description: String {
        let then = retryAfter.map { "; next attempt in \($0)" } ?? ""
        return "\(operation.rawValue) failed (attempt \(attempt)): \(error)\(then)"
    }

    /// Writes a line to standard error: what a store does with a failure unless it is told otherwise.
    @Sendable
    static func print(_ failure: FluxPersistenceFailure) {
        var line = "FluxCore: \(failure)\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}
