/// A value that changes by actions only.
///
/// ```swift
/// struct Counter: FluxState {
///     enum Action: FluxAction { case add(Int) }
///     private(set) var count = 0
///
///     mutating func handle(action: Action) -> Counter? {
///         switch action {
///         case .add(0): return nil
///         case .add(let amount): count += amount
///         }
///         return self
///     }
/// }
/// ```
///
/// Thread safety: a state is handled under the lock of its store, one action at a time, and copies of it are handed to
/// subscriptions on other threads, so it is `Sendable`.
nonisolated public protocol FluxState: Sendable {
    /// The changes this state can make.
    associatedtype Action: FluxAction

    /// Applies an action, and says whether the outcome is to be announced.
    ///
    /// It runs exactly once per action that reaches the store, one action at a time (C1), under the lock of the store.
    /// So it is pure: it changes `self` from the action alone, and may use no store, dispatcher or creator. A program in which
    /// it does so stops with a message (C6).
    ///
    /// What it changed before it returned nil stays: `store.state` has it at once, no subscription is told, and it shows
    /// with the next change that is announced. Return nil where nothing changed, and return `self` otherwise.
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The state to keep and announce, usually `self`; nil when there is nothing to announce.
    mutating func handle(action: Action) -> Self?
}
