#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxStore {
    // MARK: - Other types of action

    /// Lets the store react to a type of action that is not its state's own, such as one that concerns many stores.
    ///
    /// ```swift
    /// cart.on(LogOut.self) { state, action in state.lines = [] }
    /// dispatcher.dispatch(action: LogOut())
    /// ```
    ///
    /// What it does is a change like any other: one at a time with those of `handle` (C1), announced under a revision of its
    /// own. The closure is as pure as `handle(action:)`, and the same is not allowed in it (C6). Of several reactions to one type each is
    /// called, in the order added, and makes a change of its own; those of stores of one priority in the order added too, or attached where
    /// that was later. It follows the store to other dispatchers. What is dispatched to the store itself calls none: an action of the
    /// state's own type belongs in `handle(action:)`, which takes it by every way.
    ///
    /// - Parameters:
    ///   - type: Which actions.
    ///   - body: Changes the state.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(1), amortised; to remove it O(*n*) for the *n* reactions of the store.
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

    /// Lets the store react to a type of action, where it may find that there is nothing to change.
    ///
    /// - Parameters:
    ///   - type: Which actions.
    ///   - body: Changes the state, and returns whether it has: with false nothing is announced, and the state stays as it was.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(1), amortised; to remove it O(*n*) for the *n* reactions of the store.
    @inlinable @discardableResult
    public func on<Action: FluxAction, Answer: ExpressibleByBooleanLiteral & Sendable>(
        _ type: Action.Type, _ body: @escaping @Sendable (_ state: inout State, _ action: Action) -> Answer
    ) -> FluxRegistration {
        // With Bool itself a closure of several statements that returns nothing would be ambiguous.
        handle.route(type) { action in
            .other(action) { state in
                let before = state
                if body(&state, action) as? Bool ?? true { return true }
                // What it did change all the same would be seen by nobody.
                state = before
                return false
            }
        }
    }
}
