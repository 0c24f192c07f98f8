import Dispatch

/// The main queue, by a name that lets a handler belong to the main actor: `subscribe(on: .main) { … }`.
///
/// Somebody has to run the main queue: an app does, a program whose `main` is async, and `dispatchMain()`.
///
/// Thread safety: a value.
nonisolated public struct FluxMainQueue: Sendable {
    /// The main queue.
    public static let main = FluxMainQueue()

    /// Makes of a handler of the main actor one that any thread may hold, to be called on the main queue alone.
    @usableFromInline
    func bind<each Value: Sendable>(
        _ handler: @escaping @MainActor @Sendable (repeat each Value) -> Void
    ) -> @Sendable (repeat each Value) -> Void {
        { (value: repeat each Value) in MainActor.assumeIsolated { handler(repeat each value) } }
    }
}

nonisolated extension FluxSource {
    /// Calls a handler on the main actor with the states that are announced from now on.
    ///
    /// With ``FluxDelivery/latest`` it is called once for each turn of the main queue at most.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribe(
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (State) -> Void
    ) -> FluxSubscription {
        subscribe(
            FluxWish(delivery, on: .main, startingWithCurrent: startingWithCurrent),
            distinct(delivery, main.bind(handler)))
    }
}
