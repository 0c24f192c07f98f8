import FluxCore

/// An action that concerns many stores, and is no state's own.
public struct LogOut: FluxAction {
    /// Why, for tests that look.
    public var reason: String

    /// An action with a reason, which need not be given.
    public init(reason: String = "") {
        self.reason = reason
    }
}

extension FluxDispatcher {
    /// Dispatches an action of the counter and its log.
    @discardableResult
    public func add(_ amount: Int) -> Int { dispatch(action: Counter.Action.add(amount)) }
}
