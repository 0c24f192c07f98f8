#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxStore {
    // MARK: - Other types of action

    /// Lets the store react to an action type that is not its state's own, such as one that concerns many stores.
    ///
    /// ```swift
    /// cart.on(LogOut.self) { state, action in state.lines = [] }
    /// dispatcher.dispatch(action: LogOut())
    /// ```
    ///
    /// A reaction makes a change like any other: one at a time with those of `handle` (C1), announced under its own
    /// revision. The closure has to be as pure as `handle(action:)`, with the same restrictions (C6). Several reactions
    /// to one type are called in the order added, and each makes its own change. Reactions of several stores of one
    /// priority are also called in the order added, or in the order in which the stores were attached if that was
    /// later. A reaction follows the store to other dispatchers. An action that is dispatched to the store itself calls
    /// no reaction. An action of the state's own type belongs in `handle(action:)`, which receives it however it is
    /// dispatched.
    ///
    /// - Parameters:
    ///   - type: The action type.
    ///   - body: Changes the state.
    /// - Returns: The registration that removes the reaction; releasing the registration removes nothing.
    /// - Complexity: O(1), amortised; O(*n*) if *n* stores have a lower priority. Removing the reaction takes O(*n*)
    ///   for the *n* reactions of the store.
    @inlinable @discardableResult public func on<Action: FluxAction>(
        _ type: Action.Type, _ body: @escaping @Sendable (_ state: inout State, _ action: Action) -> Void
    ) -> FluxRegistration {
        handle.route(type) { action in
            .other(action) { state in
                body(&state, action)
                return true
            }
        }
    }

    /// Lets the store react to an action type with a closure that may find nothing to change.
    ///
    /// - Parameters:
    ///   - type: The action type.
    ///   - body: Changes the state, and returns whether it has. With false, nothing is announced and the state stays as
    ///     it was.
    /// - Returns: The registration that removes the reaction; releasing the registration removes nothing.
    /// - Complexity: O(1), amortised; O(*n*) if *n* stores have a lower priority. Removing the reaction takes O(*n*)
    ///   for the *n* reactions of the store. Each call of the closure copies the collections that it changes; a closure
    ///   that returns nothing does not.
    @inlinable @discardableResult
    public func on<Action: FluxAction, Answer: ExpressibleByBooleanLiteral & Sendable>(
        _ type: Action.Type, _ body: @escaping @Sendable (_ state: inout State, _ action: Action) -> Answer
    ) -> FluxRegistration {
        // With `Bool` itself, a closure of several statements that returns nothing would be ambiguous.
        handle.route(type) { action in
            .other(action) { state in
                let before = state
                if body(&state, action) as? Bool ?? true { return true }
                // Otherwise a change that the closure has made anyway would stay, and no observer or view would know.
                state = before
                return false
            }
        }
    }
}
