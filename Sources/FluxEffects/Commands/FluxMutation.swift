#if canImport(FluxCore)
    import FluxCore
#endif

/// An action that makes its change itself.
///
/// A state whose `Action` is such a type has its `handle(action:)` for free; ``FluxMutation`` is one.
///
/// Thread safety: a value that any thread applies.
nonisolated public protocol FluxMutating<State>: FluxAction {
    /// The state that it changes.
    associatedtype State

    /// Makes the change; called under the lock of the store, and pure as `handle(action:)` is.
    ///
    /// - Parameter state: What to change.
    func apply(to state: inout State)
}

/// An action that is a named change, for those who prefer a function per change to a case in a switch.
///
/// A state whose `Action` is this type has its `handle(action:)` for free:
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
/// store.dispatch(action: .rename(to: "Ada"))  // rename(Ada) to whoever looks on
/// ```
///
/// Thread safety: a value; its closure runs under the lock of the store, and is pure as `handle(action:)` is.
nonisolated public struct FluxMutation<State>: FluxMutating, CustomStringConvertible {
    /// What the change is called, by default the function that made it.
    public let name: String
    /// What it was made with, as far as it says so.
    public let arguments: [any Sendable]
    private let body: @Sendable (_ state: inout State) -> Void

    /// Makes a named change; it is always announced.
    ///
    /// - Parameters:
    ///   - name: What the change is called, for logs.
    ///   - body: Changes the state.
    public init(_ name: String = #function, _ body: @escaping @Sendable (_ state: inout State) -> Void) {
        (self.name, arguments, self.body) = (name, [], body)
    }

    /// Makes a named change that shows what it was made with; it is always announced.
    ///
    /// - Parameters:
    ///   - name: What the change is called, for logs; of a name such as `#function` the part before its parentheses.
    ///   - arguments: What it was made with, for whoever looks at actions.
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
    /// - Parameter state: What to change.
    public func apply(to state: inout State) { body(&state) }
}

// Not for `FluxMutation` by its name: from that the compiler would infer the `Action` of every state whose own `handle(action:)` it
// cannot take, and each of its actions would be ignored.
nonisolated extension FluxState where Action: FluxMutating<Self> {
    /// Makes the change that the action carries, and announces it.
    ///
    /// - Parameter action: The change.
    /// - Returns: The state, as it is now.
    public mutating func handle(action: Action) -> Self? {
        action.apply(to: &self)
        return self
    }
}
