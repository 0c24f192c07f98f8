/// What changes a state, as those who look on at a store see it.
///
/// Thread safety: a value.
nonisolated public enum FluxChange<State: FluxState>: Sendable {
    /// An action of the state's own, for its `handle(action:)`.
    case action(State.Action)
    /// An action of any other type and what the store does about it, pure as `handle(action:)`; false: it changed nothing.
    indirect case other(any FluxAction, @Sendable (inout State) -> Bool)
    /// Another state took the place of the one that was there, such as one that was loaded; the action says why.
    indirect case replaced(by: any FluxAction)

    /// Makes the change; false: nothing is to be announced.
    @inlinable func apply(to state: inout State) -> Bool {
        switch self {
        case .action(let action):
            guard let next = state.handle(action: action) else { return false }
            state = next
            return true
        case .other(_, let body): return body(&state)
        case .replaced: return true
        }
    }

    /// The action.
    @inlinable public var action: any FluxAction {
        switch self {
        case .action(let action): action
        case .other(let action, _), .replaced(by: let action): action
        }
    }
}
