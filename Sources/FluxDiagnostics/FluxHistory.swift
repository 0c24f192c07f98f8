#if canImport(FluxCore)
    import FluxCore
#endif

/// Records what a store applies, to undo and redo it, to look back, and to run it again.
///
/// ```swift
/// let history = FluxHistory(store, limit: 100)
/// store.dispatch(action: .add("milk"))
/// history.undo()
/// history.redo()
/// ```
///
/// Undo and redo put a state back; they run no `handle`, no middleware and no converter, and record nothing. They are
/// announced as changes of their own, under a new revision. An action that is applied after an undo takes the place of what
/// was undone.
///
/// It records from when it is made until it goes, what comes by way of dispatchers too. It keeps its store, and up to
/// `limit` + 1 states: with large ones choose a small limit, since each state that is kept makes the next `handle` copy what
/// it changes.
///
/// Thread safety: all of it may be used from any thread, and inside handlers and middleware.
nonisolated public final class FluxHistory<State: FluxState>: Sendable {
    /// An action that was applied, and what it led to.
    ///
    /// Thread safety: a value.
    public struct Entry: Sendable {
        @usableFromInline let change: FluxChange<State>
        /// The state after it.
        public let state: State
        /// The revision that the store was at after it.
        public let revision: UInt64

        @inlinable init(change: FluxChange<State>, state: State, revision: UInt64) {
            (self.change, self.state, self.revision) = (change, state, revision)
        }

        /// The action.
        public var action: any FluxAction { change.action }
    }

    @usableFromInline let store: FluxStore<State>
    @usableFromInline let recorder: FluxHistoryRecorder<State>

    /// Starts to record.
    ///
    /// - Parameters:
    ///   - store: Whose actions.
    ///   - limit: How many actions to keep, at least 1; the oldest is forgotten first.
    /// - Complexity: O(1), and so is what each action costs, whatever the limit.
    @inlinable public init(_ store: FluxStore<State>, limit: Int) {
        guard limit > 0 else {
            Swift.fatalError("FluxCore: FluxHistory(limit: \(limit)) keeps nothing: give a limit of 1 or more.")
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
        // Let go of with some lock held it is cleared away once there is none.
        FluxPureCode.after { [store, recorder] in store.handle.withAccess { $0.remove(recorder) } }
    }

    // MARK: - Looking back

    /// What is kept, the oldest first; those behind the current position were undone.
    ///
    /// - Complexity: O(*n*) for *n* entries.
    public var entries: [Entry] { recorder.machine.withLock { $0.entries } }

    /// How many of the ``entries`` are in the state of the store: the others were undone.
    public var position: Int { recorder.machine.withLock { $0.position } }

    /// The state before the first of the ``entries``.
    public var start: State { recorder.machine.withLock { $0.start.state } }

    // MARK: - Going back and forth

    /// Takes the last action back.
    ///
    /// - Returns: The new revision; nil if there is nothing to take back, or while the store holds changes back: as long as it loads,
    ///   and always if it is that of a `FluxReplica`, whose state follows from a log alone.
    /// - Complexity: O(1).
    @discardableResult
    public func undo() -> UInt64? { move { $0.undo() } }

    /// Puts back the action that was taken back last.
    ///
    /// Whatever is applied meanwhile, announced or not, ends that.
    ///
    /// - Returns: The new revision, which is that of no entry; nil if there is nothing to put back.
    /// - Complexity: O(1).
    @discardableResult
    public func redo() -> UInt64? { move { $0.redo() } }

    /// Puts back the state that an entry left, or the one before the first.
    ///
    /// Of several entries with one revision the last is meant: what was not announced has that of the change before it. Where the
    /// first entry was not announced, ``undo()`` alone leads to the state before it.
    ///
    /// - Parameter revision: The revision of the entry, and not one that a move has returned.
    /// - Returns: The new revision; nil if none is kept of that revision.
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
    /// Only `handle(action:)` and reactions run: no middleware, no converter, no subscription, so no side effect a second
    /// time.
    ///
    /// - Parameter state: The state to begin with; nil for the one before the first entry.
    /// - Returns: The state after each entry. From ``start`` on they are those of the entries.
    /// - Complexity: O(*n*) for *n* entries.
    public func replay(onto state: State? = nil) -> [State] {
        let (start, entries, position) = recorder.machine.withLock { ($0.start.state, $0.entries, $0.position) }
        return Self.replay(entries.prefix(position).map { ($0.change, $0.state) }, onto: state ?? start)
    }

    /// Applies actions to a fresh state, as a store would, and nothing else.
    ///
    /// - Parameters:
    ///   - actions: The actions, first things first.
    ///   - state: The state to begin with.
    /// - Returns: The state after each action.
    /// - Complexity: O(*n*) for *n* actions.
    public static func replay(_ actions: [State.Action], onto state: State) -> [State] {
        replay(actions.map { (.action($0), state) }, onto: state)
    }

    private static func replay(_ steps: [(change: FluxChange<State>, left: State)], onto state: State) -> [State] {
        var state = state
        // As in a store: a `handle` that dispatches stops here too.
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

/// Says, to those who look on, that a history put another state in the place of the one that was there.
nonisolated struct FluxHistoryMove: FluxAction, CustomStringConvertible {
    /// Whose: to any other it is a change like those of actions.
    let recorder: ObjectIdentifier

    /// As logs show it.
    var description: String { "undo, redo or jump of a FluxHistory" }
}

/// Records what one store applies; locked after the store.
///
/// Open to the client's module, which specialises it.
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

    /// Takes what a history has put back, or what was loaded before the first action; nil: it is a change like others.
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

/// Lets go, once no lock is held, of what a history has forgotten: that may be the last to know it.
@usableFromInline nonisolated final class FluxForgotten<Value: Sendable>: FluxSettling {
    private let value: Value

    @usableFromInline init(_ value: Value) { self.value = value }

    @usableFromInline func settle() {}
}
