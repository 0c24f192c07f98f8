/// What a subscription gets where changes come faster than it takes them.
///
/// | delivery  | gets                               | holds, while it is slow  |
/// |-----------|------------------------------------|--------------------------|
/// | `.every`  | each change, in order              | what it has not taken yet |
/// | `.latest` | the newest; skips, never goes back | nothing                  |
///
/// Thread safety: a value.
nonisolated public enum FluxDelivery: Sendable {
    /// Each announced change exactly once, in order; lossless.
    case every
    /// The state as it is when it is handed over; ends on the newest (C5).
    case latest
}

/// The main queue, by a name that lets a handler belong to the main actor: `subscribe(on: .main) { … }`.
///
/// Somebody has to run the main queue: an app does, a program whose `main` is async, and `dispatchMain()`.
///
/// Thread safety: a value.
nonisolated public struct FluxMainQueue: Sendable {
    /// The main queue.
    public static let main = FluxMainQueue()

    /// Makes of a handler of the main actor one that any thread may hold, to be called on the main queue alone.
    ///
    /// - Parameter handler: The handler.
    /// - Returns: A handler that stops the program where it is called on another queue.
    public func bind<each Value: Sendable>(
        _ handler: @escaping @MainActor @Sendable (repeat each Value) -> Void
    ) -> @Sendable (repeat each Value) -> Void {
        { (value: repeat each Value) in MainActor.assumeIsolated { handler(repeat each value) } }
    }
}
