#if canImport(FluxCore)
    import FluxCore
#endif

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
nonisolated public struct FluxMutation<State>: FluxAction, CustomStringConvertible {
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

    func apply(to state: inout State) { body(&state) }
}

nonisolated extension FluxState where Action == FluxMutation<Self> {
    /// Makes the change that the action carries, and announces it.
    public mutating func handle(action: FluxMutation<Self>) -> Self? {
        action.apply(to: &self)
        return self
    }
}
