import FluxCore
import FluxRouting
import Testing

// CONTRIBUTING.md shows the code down to the suite, as it stands here.

/// Notes the announced changes of a store after a known revision: it misses none, and notes none twice.
final class Journal<State: FluxState>: FluxStoreObserver {
    private let noted = FluxLock<[String]>([])

    var lines: [String] { noted.withLock { $0 } }

    /// Begins, and returns the revision that the first line follows: the two are one step.
    func begin(on store: FluxStore<State>) -> UInt64 {
        store.handle.withAccess { access in
            access.observe(self)
            return access.revision
        }
    }

    func end(on store: FluxStore<State>) { store.handle.withAccess { $0.remove(self) } }

    /// Called while the store's lock is held, so it only takes a note.
    ///
    /// For slow work it would return an object, which is settled after the unlock.
    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        guard let revision else { return nil }
        noted.withLock { $0.append("\(revision) \(change.action)") }
        return nil
    }
}

@Suite(.timeLimit(.minutes(1))) struct JournalExampleTests {
    private struct Tally: FluxState {
        enum Action: FluxAction { case add(Int) }

        var total = 0

        mutating func handle(action: Action) -> Tally? {
            guard case .add(let amount) = action, amount != 0 else { return nil }
            total += amount
            return self
        }
    }

    private struct Reset: FluxAction {}

    @Test func notesWhatIsAnnouncedInTheOrderApplied() {
        let store = FluxStore(initialState: Tally(), dispatcher: nil)
        let journal = Journal<Tally>()
        store.dispatch(action: .add(1))
        #expect(journal.begin(on: store) == 1)
        store.dispatch(action: .add(2))
        store.dispatch(action: .add(0))
        store.dispatch(action: .add(3))
        #expect(journal.lines == ["2 add(2)", "3 add(3)"])
        journal.end(on: store)
        store.dispatch(action: .add(4))
        #expect(journal.lines.count == 2)
    }

    @Test func notesWhatAReactionDoes() {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Tally(), dispatcher: dispatcher)
        store.on(Reset.self) { state, _ in state.total = 0 }
        let journal = Journal<Tally>()
        _ = journal.begin(on: store)
        dispatcher.dispatch(action: Tally.Action.add(1))
        dispatcher.dispatch(action: Reset())
        #expect(journal.lines == ["1 add(1)", "2 Reset()"])
    }

    @Test func missesNothingHoweverManyThreadsDispatch() async {
        let store = FluxStore(initialState: Tally(), dispatcher: nil)
        let journal = Journal<Tally>()
        let first = await withTaskGroup(of: UInt64.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<500 { store.dispatch(action: .add(1)) }
                    return 0
                }
            }
            group.addTask { journal.begin(on: store) }
            return await group.reduce(0, max)
        }
        #expect(journal.lines == (first..<2000).map { "\($0 + 1) add(1)" })
    }
}
