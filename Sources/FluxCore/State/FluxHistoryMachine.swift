/// What a history keeps, and where in it the store is: a pure state machine.
///
/// | input    | result                                                                                      |
/// |----------|---------------------------------------------------------------------------------------------|
/// | `restart` | the state that was loaded takes the place of the one before the oldest entry             |
/// | `record` | what was undone is forgotten; kept as the newest; over the limit the oldest is forgotten      |
/// | `undo`   | the state before the step the store is at; nil where nothing older is kept                    |
/// | `redo`   | the state after the next step; nil where nothing was undone                                   |
/// | `jump`   | the state that had a revision; nil where it is not kept                                       |
@usableFromInline
nonisolated struct FluxHistoryMachine<State: FluxState> {
    /// A step, and the state after it.
    struct Entry {
        let step: FluxStep<State>
        let state: State
        let revision: UInt64
    }

    /// What is to be let go of outside the lock.
    @usableFromInline
    struct Forgotten {
        var entries: ArraySlice<Entry> = []
        var start: State?
    }

    private let limit: Int
    /// The state before the oldest entry, and its revision.
    private(set) var start: (state: State, revision: UInt64)
    private(set) var entries: ArraySlice<Entry> = []
    /// How many of the entries are in the store's state: those behind were undone.
    private(set) var position = 0

    init(state: State, revision: UInt64, limit: Int) {
        start = (state, revision)
        self.limit = limit
    }

    /// Goes on from a state that was loaded; before that nothing is recorded.
    mutating func restart(_ state: State, _ revision: UInt64) {
        start = (state, revision)
    }

    mutating func record(_ step: FluxStep<State>, _ state: State, _ revision: UInt64) -> Forgotten {
        var forgotten = Forgotten(entries: entries.dropFirst(position))
        entries.removeLast(entries.count - position)
        entries.append(Entry(step: step, state: state, revision: revision))
        if entries.count > limit {
            forgotten.start = start.state
            let oldest = entries.removeFirst()
            start = (oldest.state, oldest.revision)
            forgotten.entries.append(oldest)
        }
        position = entries.count
        return forgotten
    }

    mutating func undo() -> State? {
        if position == 0 { return nil }
        return move(to: position - 1)
    }

    mutating func redo() -> State? {
        if position == entries.count { return nil }
        return move(to: position + 1)
    }

    mutating func jump(to revision: UInt64) -> State? {
        if let index = entries.lastIndex(where: { $0.revision == revision }) {
            return move(to: index - entries.startIndex + 1)
        }
        return revision == start.revision ? move(to: 0) : nil
    }

    private mutating func move(to position: Int) -> State {
        self.position = position
        return position == 0 ? start.state : entries[entries.startIndex + position - 1].state
    }
}
