import Dispatch

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Runs something at the first SIGINT or SIGTERM; the second ends the program, should the first not do.
///
/// Thread safety: all of it may be used from any thread.
public struct Interrupt {
    private let sources: [any DispatchSourceSignal]

    /// Waits for the signals from now on.
    ///
    /// - Parameter action: What to run, on a thread of the pool.
    public init(_ action: @escaping @Sendable () -> Void) {
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
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
