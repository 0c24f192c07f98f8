import Dispatch

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Runs a closure at the first SIGINT, SIGTERM or SIGHUP of its kind; a second of the same kind ends the program.
///
/// SIGHUP, which is sent when a terminal is closed, is left alone if it was ignored from the start, as by nohup.
///
/// Thread safety: may be used from any thread.
public struct Interrupt {
    /// The signals that it may handle.
    public static let signals = [SIGINT, SIGTERM, SIGHUP]

    private let sources: [any DispatchSourceSignal]

    /// Starts to handle the signals.
    ///
    /// - Parameter action: The closure to run, on a thread of the global pool.
    public init(_ action: @escaping @Sendable () -> Void) {
        sources = Self.signals.compactMap { number in
            // Swift cannot compare handlers directly.
            let before = unsafeBitCast(signal(number, SIG_IGN), to: Int.self)
            if number == SIGHUP && before == unsafeBitCast(SIG_IGN, to: Int.self) { return nil }
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                signal(number, SIG_DFL)
                action()
            }
            source.resume()
            return source
        }
    }

    /// Stops handling the signals.
    public func stop() {
        for source in sources { source.cancel() }
    }
}
