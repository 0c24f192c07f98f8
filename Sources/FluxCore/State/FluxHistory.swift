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
        let step: FluxStep<State>
        /// The action.
        public var action: any FluxAction { step.action }
        /// The state after it.
        public let state: State
        /// The revision that the store was at after it.
        public let revision: UInt64
    }

    private let store: FluxStore<State>
    private let book: FluxHistoryBook<State>

    /// Starts to record.
    ///
    /// - Parameters:
    ///   - store: Whose actions.
    ///   - limit: How many actions to keep, at least 1; the oldest is forgotten first.
    /// - Complexity: O(1).
    @inlinable
    public convenience init(_ store: FluxStore<State>, limit: Int) {
        self.init(store, store.resident, limit: limit)
    }

    @usableFromInline
    init(_ store: FluxStore<State>, _ resident: FluxResident, limit: Int) {
        fluxRequire(limit > 0, "FluxHistory(limit: \(limit)) keeps nothing: give a limit of 1 or more.")
        let core = store.core
        fluxStopInsideHandle("FluxHistory.init")
        self.store = store
        book = core.lock.withLock { machine in
            let book = FluxHistoryBook(
                FluxHistoryMachine(state: machine.state, revision: machine.revision, limit: limit))
            resident.changeHistories(core.detours) { $0.append(book) }
            return book
        }
    }

    deinit {
        let (core, book) = (store.core, book)
        core.residentIfAny?.changeHistories(core.detours) { $0.removeAll { $0 === book } }
    }

    // MARK: - Looking back

    /// What is kept, the oldest first; those behind the current position were undone.
    ///
    /// - Complexity: O(*n*) for *n* entries.
    public var entries: [Entry] {
        book.read { $0.entries.map { Entry(step: $0.step, state: $0.state, revision: $0.revision) } }
    }

    /// How many of the ``entries`` are in the state of the store: the others were undone.
    public var position: Int { book.read { $0.position } }

    /// The state before the first of the ``entries``.
    public var start: State { book.read { $0.start.state } }

    // MARK: - Going back and forth

    /// Takes the last action back.
    ///
    /// - Returns: The new revision; nil if there is nothing to take back.
    /// - Complexity: O(1).
    @discardableResult
    public func undo() -> UInt64? {
        move { $0.undo() }
    }

    /// Puts back the action that was taken back last.
    ///
    /// - Returns: The new revision; nil if there is nothing to put back.
    /// - Complexity: O(1).
    @discardableResult
    public func redo() -> UInt64? {
        move { $0.redo() }
    }

    /// Puts back the state that an entry left, or the one before the first.
    ///
    /// - Parameter revision: The revision of the entry.
    /// - Returns: The new revision; nil if none is kept of that revision.
    /// - Complexity: O(*n*) for *n* entries.
    @discardableResult
    public func jump(to revision: UInt64) -> UInt64? {
        move { $0.jump(to: revision) }
    }

    private func move(_ body: (inout FluxHistoryMachine<State>) -> State?) -> UInt64? {
        let core = store.core
        let thread = core.threads.current
        if thread.pointee.handling != nil { fluxStopImpureHandle("FluxHistory") }
        var startsWriter = false
        let applied = core.lock.withLock { machine -> FluxStoreCore<State>.Machine.Applied? in
            // While the state is being loaded there is nothing to go back to: what was dispatched is held back.
            if core.isLoading { return nil }
            guard let state = book.change(body) else { return nil }
            thread.pointee.handling = UnsafeRawPointer(fluxIdentity: core)
            defer { thread.pointee.handling = nil }
            startsWriter = core.noteChange()
            return machine.change { $0 = state }
        }
        if core.chainIfWatched != nil, let revision = applied?.revision { core.stamp(revision, at: fluxNow()) }
        applied?.wakes.forEach { $0.wake() }
        if startsWriter { core.startWriterSoon() }
        return applied?.revision
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
        let (start, entries, position) = book.read { ($0.start.state, $0.entries, $0.position) }
        return Self.replay(entries.prefix(position).map(\.step), onto: state ?? start)
    }

    /// Applies actions to a fresh state, as a store would, and nothing else.
    ///
    /// - Parameters:
    ///   - actions: The actions, first things first.
    ///   - state: The state to begin with.
    /// - Returns: The state after each action.
    /// - Complexity: O(*n*) for *n* actions.
    public static func replay(_ actions: [State.Action], onto state: State) -> [State] {
        replay(actions.map { .action($0) }, onto: state)
    }

    private static func replay(_ steps: [FluxStep<State>], onto state: State) -> [State] {
        var state = state
        return steps.map { step in
            switch step {
            case .action(let action): if let next = state.handle(action: action) { state = next }
            case .reaction(_, let body): body(&state)
            }
            return state
        }
    }
}

/// What one history keeps; locked after the store.
@usableFromInline
nonisolated final class FluxHistoryBook<State: FluxState>: Sendable {
    private let lock: FluxLock<FluxHistoryMachine<State>>

    init(_ machine: FluxHistoryMachine<State>) {
        lock = FluxLock(machine)
    }

    @usableFromInline
    func record(_ step: FluxStep<State>, _ state: State, _ revision: UInt64) -> FluxHistoryMachine<State>.Forgotten {
        lock.withLock { $0.record(step, state, revision) }
    }

    func restart(_ state: State, _ revision: UInt64) {
        lock.withLock { $0.restart(state, revision) }
    }

    func change(_ body: (inout FluxHistoryMachine<State>) -> State?) -> State? {
        lock.withLock { body(&$0) }
    }

    func read<Value>(_ body: (FluxHistoryMachine<State>) -> Value) -> Value {
        lock.withLock { body($0) }
    }
}
