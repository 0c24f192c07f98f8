import Dispatch
import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Runs a closure at the first SIGINT, SIGTERM or SIGHUP; a second signal, of any of these kinds, ends the program.
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
        let handled = Self.signals.filter { number in
            // Swift cannot compare handlers directly.
            let before = unsafeBitCast(signal(number, SIG_IGN), to: Int.self)
            return number != SIGHUP || before != unsafeBitCast(SIG_IGN, to: Int.self)
        }
        let flag = Flag()
        sources = handled.map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                if flag.isSet.exchange(true, ordering: .relaxed) { return }
                for number in handled { signal(number, SIG_DFL) }
                action()
            }
            source.setCancelHandler { signal(number, SIG_DFL) }
            source.resume()
            return source
        }
    }

    /// Stops handling the signals; once Dispatch has noticed that, each of them ends the program.
    public func stop() {
        for source in sources { source.cancel() }
    }

    private final class Flag: Sendable { let isSet = Atomic(false) }
}
