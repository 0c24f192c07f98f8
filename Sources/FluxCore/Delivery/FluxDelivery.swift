/// Which changes a subscription receives when changes come faster than its handler takes them.
///
/// | delivery  | receives                           | keeps for a slow handler      |
/// |-----------|------------------------------------|-------------------------------|
/// | `.every`  | each change, in order              | the changes not delivered yet |
/// | `.latest` | the newest; skips, never goes back | only the state that it has    |
///
/// A change that is applied while a state waits, or while a handler has it, copies the collections that it changes.
///
/// Thread safety: a value.
nonisolated public enum FluxDelivery: Sendable {
    /// Each announced change exactly once, in order; lossless.
    case every
    /// The current state at the time of the delivery; ends on the newest (C5).
    case latest
}

/// The main queue, as a type that lets a handler run on the main actor: `subscribe(on: .main) { … }`.
///
/// The program must run the main queue. An app does, and so does a program whose `main` is async or calls
/// `dispatchMain()`.
///
/// Thread safety: a value.
nonisolated public struct FluxMainQueue: Sendable {
    /// The main queue.
    public static let main = FluxMainQueue()

    /// Wraps a handler of the main actor, so any thread may hold it; only the main queue may call it.
    ///
    /// - Parameter handler: The handler.
    /// - Returns: A handler that stops the program if it is called on another queue.
    public func bind<each Value: Sendable>(
        _ handler: @escaping @MainActor @Sendable (repeat each Value) -> Void
    ) -> @Sendable (repeat each Value) -> Void {
        { (value: repeat each Value) in MainActor.assumeIsolated { handler(repeat each value) } }
    }
}
