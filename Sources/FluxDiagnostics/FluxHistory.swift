#if canImport(FluxCore)
    import FluxCore
#endif

/// Records what a store applies, to undo and redo it, to look back, and to replay it.
///
/// ```swift
/// let history = FluxHistory(store, limit: 100)
/// store.dispatch(action: .add("milk"))
/// history.undo()
/// history.redo()
/// ```
///
/// Undo and redo restore a state. They run no `handle`, no middleware and no converter, and record nothing. Each is
/// announced as a separate change, with a new revision. An action that is applied after an undo replaces what was
/// undone.
///
/// A history records from its creation until its release, including actions that arrive through dispatchers. It keeps
/// its store, and up to `limit` + 1 states. Choose a small limit for large states, since each state that is kept makes
/// the next `handle` copy what it changes.
///
/// Thread safety: all of it may be used from any thread, and inside handlers and middleware.
nonisolated public final class FluxHistory<State: FluxState>: Sendable {
    /// An action that was applied, and its result.
    ///
    /// Thread safety: a value.
    public struct Entry: Sendable {
        @usableFromInline let change: FluxChange<State>
        /// The state after the action.
        public let state: State
        /// The revision of the store after the action.
        public let revision: UInt64

        @inlinable init(change: FluxChange<State>, state: State, revision: UInt64) {
            (self.change, self.state, self.revision) = (change, state, revision)
        }

        /// The action.
        public var action: any FluxAction { change.action }
    }

    @usableFromInline let store: FluxStore<State>
    @usableFromInline let recorder: FluxHistoryRecorder<State>

    /// Starts recording a store.
    ///
    /// - Parameters:
    ///   - store: The store to record.
    ///   - limit: How many actions to keep, at least 1. The oldest is forgotten first.
    /// - Complexity: O(1). Recording an action costs O(1) too, amortised, whatever the limit: the first one
    ///   after a jump back forgets what was undone.
    @inlinable public init(_ store: FluxStore<State>, limit: Int) {
        guard limit > 0 else {
            Swift.fatalError("FluxCore: FluxHistory(limit: \(limit)) would keep nothing. Give a limit of 1 or more.")
        }
        FluxPureCode.forbid("FluxHistory.init")
        self.store = store
        recorder = store.handle.withAccess { access in
            let recorder = FluxHistoryRecorder(
                FluxHistoryMachine(
                    state: access.state, revision: access.revision, limit: limit, isLoading: access.isHeld))
            access.observe(recorder)
            return recorder
        }
    }

    deinit {
        // If this history is released while a lock is held, the recorder is removed once the lock is free.
        FluxPureCode.after { [store, recorder] in store.handle.withAccess { $0.remove(recorder) } }
    }

    // MARK: - Looking back

    /// The recorded entries, oldest first; those after the current position were undone.
    ///
    /// - Complexity: O(*n*) for *n* entries.
    public var entries: [Entry] { recorder.machine.withLock { $0.entries } }

    /// How many of the ``entries`` are part of the store's state; the others were undone.
    public var position: Int { recorder.machine.withLock { $0.position } }

    /// The state before the first of the ``entries``.
    public var start: State { recorder.machine.withLock { $0.start.state } }

    // MARK: - Going back and forth

    /// Undoes the last action.
    ///
    /// - Returns: The new revision. Nil if there is nothing to undo, or while the store holds changes back: during a
    ///   load, and always for the store of a `FluxReplica`, whose state follows from a log alone.
    /// - Complexity: O(1).
    @discardableResult
    public func undo() -> UInt64? { move { $0.undo() } }

    /// Redoes the action that was undone last.
    ///
    /// Any change that is applied in between, announced or not, makes this impossible.
    ///
    /// - Returns: The new revision, which is not that of the redone entry. Nil if there is nothing to redo, or while
    ///   the store holds changes back.
    /// - Complexity: O(1).
    @discardableResult
    public func redo() -> UInt64? { move { $0.redo() } }

    /// Restores the state after an entry, or the state before the first entry.
    ///
    /// If several entries have the same revision, the last of them counts: an entry that was not announced has the
    /// revision of the change before it. If the first entry was not announced, only ``undo()`` leads to the state
    /// before it.
    ///
    /// - Parameter revision: The revision of the entry; not one that ``undo()``, ``redo()`` or this function returned.
    /// - Returns: The new revision. Nil if no state with that revision is kept, or while the store holds changes back.
    /// - Complexity: O(*n*) for *n* entries.
    @discardableResult
    public func jump(to revision: UInt64) -> UInt64? { move { $0.jump(to: revision) } }

    private func move(_ body: (inout FluxHistoryMachine<State>) -> State?) -> UInt64? {
        FluxPureCode.forbid("undo(), redo() or jump(to:) of a FluxHistory")
        return store.handle.withAccess { access in
            // While changes are held back, as during a load, there is nothing to go back to.
            if access.isHeld { return nil }
            return recorder.machine.withLock { body(&$0) }.map {
                access.replace(with: $0, by: FluxHistoryMove(recorder: ObjectIdentifier(recorder)))
            }
        }
    }

    // MARK: - Running again

    /// Applies what was recorded, up to the current position, to a fresh state.
    ///
    /// Only `handle(action:)` and reactions run. No middleware, converter or subscription runs, so no side effect
    /// happens a second time.
    ///
    /// - Parameter state: The state to begin with; nil for ``start``, the state before the first entry.
    /// - Returns: The state after each entry. If it begins with ``start``, these are the states of the entries.
    /// - Complexity: O(*n*) calls of `handle` or of a reaction for *n* entries, each of which copies the collections
    ///   that it changes.
    public func replay(onto state: State? = nil) -> [State] {
        let (start, entries, position) = recorder.machine.withLock { ($0.start.state, $0.entries, $0.position) }
        return Self.replay(entries.prefix(position).map { ($0.change, $0.state) }, onto: state ?? start)
    }

    /// Applies actions to a fresh state, as a store would, and does nothing else.
    ///
    /// - Parameters:
    ///   - actions: The actions, in the order in which to apply them.
    ///   - state: The state to begin with.
    /// - Returns: The state after each action.
    /// - Complexity: O(*n*) calls of `handle` for *n* actions, each of which copies the collections that it changes.
    public static func replay(_ actions: [State.Action], onto state: State) -> [State] {
        replay(actions.map { (.action($0), state) }, onto: state)
    }

    private static func replay(_ steps: [(change: FluxChange<State>, left: State)], onto state: State) -> [State] {
        var state = state
        // As in a store, a `handle` that dispatches stops the program.
        return FluxPureCode.run("FluxState.handle(action:)") {
            steps.map { step in
                switch step.change {
                case .action(let action): if let next = state.handle(action: action) { state = next }
                case .other(_, let body): _ = body(&state)
                case .replaced: state = step.left
                }
                return state
            }
        }
    }
}

/// The action that shows observers that a history has replaced the state.
nonisolated struct FluxHistoryMove: FluxAction, CustomStringConvertible {
    /// The recorder of that history; any other recorder records the move like an action.
    let recorder: ObjectIdentifier

    /// The text that logs show.
    var description: String { "undo, redo or jump of a FluxHistory" }
}

/// Records what one store applies; its lock is taken while the store's lock is held.
///
/// Visible to the client's module, which specialises it.
@usableFromInline nonisolated final class FluxHistoryRecorder<State: FluxState>: FluxStoreObserver {
    @usableFromInline let machine: FluxLock<FluxHistoryMachine<State>>

    @inlinable init(_ machine: sending FluxHistoryMachine<State>) { self.machine = FluxLock(machine) }

    @inlinable func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        let forgotten = machine.withLock { machine in
            if case .replaced(let action) = change, let forgotten = replaced(by: action, state, revision, &machine) {
                return forgotten
            }
            return machine.record(change, state, revision)
        }
        return forgotten.isEmpty ? nil : FluxForgotten(forgotten)
    }

    /// Handles a state that this history restored or that was loaded before the first action; nil for any other.
    @usableFromInline func replaced(
        by action: any FluxAction, _ state: State, _ revision: UInt64?, _ machine: inout FluxHistoryMachine<State>
    ) -> FluxHistoryMachine<State>.Forgotten? {
        let revision = revision ?? machine.revision
        let move = action as? FluxHistoryMove
        if move == nil, machine.isLoading { return machine.restart(state, revision) }
        if move?.recorder != ObjectIdentifier(self) { return nil }
        machine.revision = revision
        return FluxHistoryMachine.Forgotten()
    }
}

/// Releases what a history has forgotten once no lock is held, because the history may have the last reference.
@usableFromInline nonisolated final class FluxForgotten<Value: Sendable>: FluxSettling {
    private let value: Value

    @usableFromInline init(_ value: Value) { self.value = value }

    @usableFromInline func settle() {}
}
