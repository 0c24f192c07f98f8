/// A change to a state, as a store's observers see it.
///
/// Thread safety: a value.
nonisolated public enum FluxChange<State: FluxState>: Sendable {
    /// An action of the state's own type, for its `handle(action:)`.
    case action(State.Action)
    /// An action of another type, with a closure that applies it, pure like `handle(action:)`; false: it changed
    /// nothing.
    indirect case other(any FluxAction, @Sendable (inout State) -> Bool)
    /// Another state, such as a loaded one, replaced the state; the action says why.
    indirect case replaced(by: any FluxAction)

    /// Applies the change; returns false if there is nothing to announce.
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
