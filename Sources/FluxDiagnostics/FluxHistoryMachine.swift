#if canImport(FluxCore)
    import FluxCore
#endif

/// What a history keeps, and the position of the store in it: a pure state machine.
///
/// | input     | result                                                                                    |
/// |-----------|-------------------------------------------------------------------------------------------|
/// | `restart` | once, before the first `record`: a loaded state replaces the start                            |
/// | `record`  | forgets what was undone; keeps the change as the newest; over the limit, forgets the oldest   |
/// | `undo`    | the state before the current entry; nil if nothing older is kept                              |
/// | `redo`    | the state after the next entry; nil if nothing was undone                                     |
/// | `jump`    | the state that had a revision; nil if it is not kept                                          |
@usableFromInline nonisolated struct FluxHistoryMachine<State: FluxState> {
    @usableFromInline typealias Entry = FluxHistory<State>.Entry

    /// Values to release once the lock is free.
    @usableFromInline struct Forgotten: Sendable {
        /// Apart from `undone`, because it is usually the only entry.
        @usableFromInline var oldest: Entry?
        @usableFromInline var start: State?
        @usableFromInline var undone: ContiguousArray<Entry> = []

        @inlinable init() {}

        @inlinable var isEmpty: Bool { start == nil && undone.isEmpty }
    }

    @usableFromInline let limit: Int
    /// The state before the oldest entry, and its revision.
    @usableFromInline var start: (state: State, revision: UInt64)
    /// A ring buffer: the oldest entry is at `first`, and an empty slot is nil.
    @usableFromInline var slots: ContiguousArray<Entry?> = []
    @usableFromInline var first = 0
    @usableFromInline var count = 0
    /// How many of the entries are part of the store's state; the later ones were undone.
    @usableFromInline var position = 0
    /// The revision of the store.
    @usableFromInline var revision: UInt64
    /// Whether the state at the start is still to be loaded.
    @usableFromInline var isLoading: Bool

    @inlinable init(state: State, revision: UInt64, limit: Int, isLoading: Bool = false) {
        start = (state, revision)
        self.isLoading = isLoading
        self.revision = revision
        self.limit = limit
    }

    var entries: [Entry] { (0..<count).compactMap { slots[slot($0)] } }

    /// Begins with a state that was loaded; called once, before the first record.
    mutating func restart(_ state: State, _ revision: UInt64) -> Forgotten {
        self.revision = revision
        isLoading = false
        var forgotten = Forgotten()
        forgotten.start = start.state
        start = (state, revision)
        return forgotten
    }

    /// Records a change; one that was not announced gets the revision of the last announced change.
    @inlinable mutating func record(_ change: FluxChange<State>, _ state: State, _ revision: UInt64?) -> Forgotten {
        isLoading = false
        var forgotten = Forgotten()
        while count > position {
            count -= 1
            if let entry = Swift.exchange(&slots[slot(count)], with: nil) { forgotten.undone.append(entry) }
        }
        if count == limit, let oldest = slots[first] {
            forgotten.start = start.state
            start = (oldest.state, oldest.revision)
            forgotten.oldest = oldest
            count -= 1
            first = first + 1 == limit ? 0 : first + 1
        }
        if count == slots.count { slots.append(nil) }
        self.revision = revision ?? self.revision
        slots[slot(count)] = Entry(change: change, state: state, revision: self.revision)
        count += 1
        position = count
        return forgotten
    }

    mutating func undo() -> State? { move(to: position - 1) }

    mutating func redo() -> State? { move(to: position + 1) }

    mutating func jump(to revision: UInt64) -> State? {
        if let index = (0..<count).last(where: { slots[slot($0)]?.revision == revision }) { return move(to: index + 1) }
        return revision == start.revision ? move(to: 0) : nil
    }

    private mutating func move(to position: Int) -> State? {
        if position < 0 || position > count { return nil }
        self.position = position
        return position == 0 ? start.state : slots[slot(position - 1)]?.state
    }

    @inlinable func slot(_ index: Int) -> Int { (first + index) % slots.count }
}
