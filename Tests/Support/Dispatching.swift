import FluxCore

/// An action for many stores, which belongs to no single state.
public struct LogOut: FluxAction {
    /// The reason, for tests that check it.
    public var reason: String

    /// Creates an action; the reason may be left out.
    public init(reason: String = "") {
        self.reason = reason
    }
}

extension FluxDispatcher {
    /// Dispatches an action that counters and logs handle.
    @discardableResult
    public func add(_ amount: Int) -> Int { dispatch(action: Counter.Action.add(amount)) }
}
