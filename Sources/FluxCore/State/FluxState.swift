/// A value that changes only through actions.
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
/// Thread safety: a state handles one action at a time, while its store's lock is held. Copies of it are delivered to
/// subscriptions on other threads, so it is `Sendable`.
nonisolated public protocol FluxState: Sendable {
    /// The type of the changes that this state can make.
    associatedtype Action: FluxAction

    /// Applies an action, and returns the state if the change is to be announced.
    ///
    /// It runs exactly once per action that reaches the store, one action at a time (C1), while the store's lock is
    /// held. So it is pure: it changes `self` from the action alone, and must not use any store, dispatcher or creator.
    /// A program that does so stops with a message (C6).
    ///
    /// Return nil if nothing changed, and `self` otherwise. Changes made before returning nil remain: `store.state` and
    /// views have them at once; subscriptions are not notified, and receive them with the next announced change.
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The state to keep and announce, usually `self`; nil if there is nothing to announce.
    mutating func handle(action: Action) -> Self?
}
