#if canImport(FluxCore)
    import FluxCore
#endif

/// An action that makes its change itself.
///
/// A state whose `Action` conforms to this protocol gets its `handle(action:)` for free. ``FluxMutation`` does.
///
/// Thread safety: a value; any thread may apply it.
nonisolated public protocol FluxMutating<State>: FluxAction {
    /// The state that it changes.
    associatedtype State

    /// Makes the change.
    ///
    /// Called while the store's lock is held; must be pure, like `handle(action:)`.
    ///
    /// - Parameter state: The state to change.
    func apply(to state: inout State)
}

/// An action that is a named change: one function per change, instead of one case of a switch.
///
/// A state whose `Action` is this type gets its `handle(action:)` for free:
///
/// ```swift
/// struct Profile: FluxState {
///     typealias Action = FluxMutation<Profile>
///     var name = ""
/// }
///
/// extension FluxMutation<Profile> {
///     static func rename(to name: String) -> Self { Self("rename", name) { $0.name = name } }
/// }
///
/// store.dispatch(action: .rename(to: "Ada"))  // observers see rename(Ada)
/// ```
///
/// Thread safety: a value; its closure runs while the store's lock is held and must be pure, like `handle(action:)`.
nonisolated public struct FluxMutation<State>: FluxMutating, CustomStringConvertible {
    /// The name of the change; by default that of the function that created it.
    public let name: String
    /// The arguments to show to observers; empty if none were given.
    public let arguments: [any Sendable]
    private let body: @Sendable (_ state: inout State) -> Void

    /// Creates a named change, which is always announced.
    ///
    /// - Parameters:
    ///   - name: The name of the change, for logs.
    ///   - body: Changes the state.
    public init(_ name: String = #function, _ body: @escaping @Sendable (_ state: inout State) -> Void) {
        (self.name, arguments, self.body) = (name, [], body)
    }

    /// Creates a named change that shows its arguments, and is always announced.
    ///
    /// - Parameters:
    ///   - name: The name of the change, for logs. Of a name such as `#function`, logs show the part before its
    ///     parentheses.
    ///   - arguments: The arguments to show to observers of actions.
    ///   - body: Changes the state.
    public init(
        _ name: String, _ arguments: any Sendable..., body: @escaping @Sendable (_ state: inout State) -> Void
    ) {
        (self.name, self.arguments, self.body) = (name, arguments, body)
    }

    /// The name, with the arguments if there are any: `rename(Ada)`.
    public var description: String {
        if arguments.isEmpty { return name }
        return "\(name.prefix { $0 != "(" })(\(arguments.map { "\($0)" }.joined(separator: ", ")))"
    }

    /// Makes the change.
    ///
    /// - Parameter state: The state to change.
    public func apply(to state: inout State) { body(&state) }
}

// Constrained to the protocol, not to `FluxMutation`. From the concrete type the compiler would infer the `Action` of
// every state whose own `handle(action:)` does not match the requirement, and its actions would be ignored.
nonisolated extension FluxState where Action: FluxMutating<Self> {
    /// Makes the change that the action carries, and announces it.
    ///
    /// - Parameter action: The change.
    /// - Returns: The changed state.
    public mutating func handle(action: Action) -> Self? {
        action.apply(to: &self)
        return self
    }
}
