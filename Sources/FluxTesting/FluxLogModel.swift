#if canImport(FluxCore)
    import FluxCore
#endif
#if canImport(FluxPersistence)
    import FluxPersistence
#endif

/// What a log should contain: all actions so far, and the state after each.
nonisolated struct FluxLogModel<State: FluxState & Equatable> {
    private let actions: [State.Action]
    /// The states after 0, 1, 2 … actions, with their revisions.
    private var states: [(state: State, revision: UInt64)]
    /// The number of the last snapshot; nil if there is none.
    private var snapshot: Int?

    init(initialState: State, actions: [State.Action]) {
        self.actions = actions
        // The revision differs from the number, because a snapshot has both. It needs more bits than a short integer or
        // a `Double` has.
        states = [(initialState, 1 << 53 | 1_001)]
    }

    private var last: Int { states.count - 1 }

    /// Applies the next actions, and returns them as entries.
    mutating func next(_ count: Int) -> [FluxLogEntry<State.Action>] {
        for _ in 0..<count {
            var (state, revision) = states[last]
            if let next = state.handle(action: action(last + 1)) {
                state = next
                revision += 1
            }
            states.append((state, revision))
        }
        return again(count)
    }

    /// Returns the last actions once more.
    func again(_ count: Int) -> [FluxLogEntry<State.Action>] {
        (last - count + 1...last).map { FluxLogEntry(number: UInt64($0), action: action($0)) }
    }

    /// Takes a snapshot of all actions but the last ones.
    mutating func snapshot(dropping count: Int) -> FluxSnapshot<State> {
        snapshot = last - count
        let (state, revision) = states[last - count]
        return FluxSnapshot(state: state, number: UInt64(last - count), revision: revision)
    }

    func expect(_ moment: String, _ contents: FluxLogContents<State>) throws {
        try FluxConformance.expect(
            "the snapshot's number \(moment)", contents.snapshot?.number, snapshot.map(UInt64.init))
        if let snapshot, let found = contents.snapshot {
            try FluxConformance.expect("the snapshot's state \(moment)", found.state, states[snapshot].state)
            try FluxConformance.expect("the snapshot's revision \(moment)", found.revision, states[snapshot].revision)
        }
        let from = UInt64(snapshot ?? 0)
        // Entries that the snapshot covers may still be there; a store skips them.
        let entries = contents.entries.filter { $0.number > from }
        try FluxConformance.expect("how many actions there are \(moment)", entries.count, last - Int(from))
        var state = contents.snapshot?.state ?? states[0].state
        for (offset, entry) in entries.enumerated() {
            let number = from + UInt64(offset) + 1
            try FluxConformance.expect("the number of an action \(moment)", entry.number, number)
            if let next = state.handle(action: entry.action) { state = next }
            try FluxConformance.expect("the state after action \(number) \(moment)", state, states[Int(number)].state)
        }
    }

    private func action(_ number: Int) -> State.Action {
        actions[(number - 1) % actions.count]
    }
}
