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
///     static func rename(to name: String) -> Self { Self { $0.name = name } }
/// }
///
/// store.dispatch(action: .rename(to: "Ada"))
/// ```
///
/// Thread safety: a value; its closure runs under the lock of the store, and is pure as `handle(action:)` is.
nonisolated public struct FluxMutation<State>: FluxAction, CustomStringConvertible {
    /// What the change is called, by default the function that made it.
    public let name: String
    private let body: @Sendable (_ state: inout State) -> Void

    /// Makes a named change; it is always announced.
    ///
    /// - Parameters:
    ///   - name: What the change is called, for logs.
    ///   - body: Changes the state.
    public init(_ name: String = #function, _ body: @escaping @Sendable (_ state: inout State) -> Void) {
        self.name = name
        self.body = body
    }

    /// The name.
    public var description: String { name }

    func apply(to state: inout State) {
        body(&state)
    }
}

nonisolated extension FluxState where Action == FluxMutation<Self> {
    /// Makes the change that the action carries, and announces it.
    public mutating func handle(action: FluxMutation<Self>) -> Self? {
        action.apply(to: &self)
        return self
    }
}
