import FluxCore

/// A state that keeps the canary of its last action.
public struct Keeping: FluxState {
    /// The action that replaces the canary.
    public struct Action: FluxAction {
        let canary: Canary?

        /// Creates an action with a canary, or one that releases the canary before it.
        public init(canary: Canary? = nil) { self.canary = canary }
    }

    private var canary: Canary?

    /// Creates a state without a canary.
    public init() {}

    /// Keeps the canary of the action in place of the last.
    public mutating func handle(action: Action) -> Keeping? {
        canary = action.canary
        return self
    }
}
