import Dispatch

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Runs something at the first SIGINT, SIGTERM or SIGHUP; the second ends the program, should the first not do.
///
/// SIGHUP, which comes when a terminal is closed, is left alone where it was ignored from the start, as nohup does.
///
/// Thread safety: all of it may be used from any thread.
public struct Interrupt {
    /// Those that it may wait for.
    public static let signals = [SIGINT, SIGTERM, SIGHUP]

    private let sources: [any DispatchSourceSignal]

    /// Waits for the signals from now on.
    ///
    /// - Parameter action: What to run, on a thread of the pool.
    public init(_ action: @escaping @Sendable () -> Void) {
        sources = Self.signals.compactMap { number in
            // Handlers are no values that Swift compares.
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

    /// Waits for them no longer.
    public func stop() {
        for source in sources { source.cancel() }
    }
}
