import Testing

@testable import FluxCore

/// The small machines behind the dispatcher: ranks, stamps, routes with priority, and the history.
@Suite struct DispatcherMachineTests {
    @Test func `Ranks are in the order of priority, then of registration, and each is removed once`() {
        let ranks = Box(FluxRanks<String>())
        let ids = [("c", 0), ("a", 2), ("d", 0), ("e", -1), ("b", 2)].map { ranks.it.add($0.0, priority: $0.1) }
        #expect(Array(ranks.it.elements) == ["a", "b", "c", "d", "e"])
        #expect(ranks.it.remove(ids[1]) == "a")
        #expect(ranks.it.remove(ids[1]) == nil)
        #expect(Array(ranks.it.removeAll { $0 > "c" }) == ["d", "e"])
        #expect(Array(ranks.it.elements) == ["b", "c"])
        #expect(!ranks.it.isEmpty)
    }

    @Test func `Stamps know the last 64 moments`() {
        let stamps = Box(FluxStamps())
        #expect(stamps.it.moment(of: 1) == nil)
        for revision in UInt64(1)...100 { stamps.it.put(revision, revision * 10) }
        #expect(stamps.it.moment(of: 100) == 1_000)
        #expect(stamps.it.moment(of: 37) == 370)
        #expect(stamps.it.moment(of: 36) == nil)
        #expect(stamps.it.moment(of: 101) == nil)
    }

    @Test func `A history: every input at its beginning, in its middle and at its end`() {
        let history = Box(FluxHistoryMachine(state: Log(), revision: 0, limit: 3))
        func record(_ number: Int) -> (entries: Int, start: Bool) {
            let state = Log(entries: [number])
            let forgotten = history.it.record(.action(.add(number)), state, UInt64(number))
            return (forgotten.entries.count, forgotten.start != nil)
        }
        #expect(history.it.undo() == nil && history.it.redo() == nil)
        #expect(history.it.jump(to: 0)?.entries == [])
        #expect(record(1) == (0, false) && record(2) == (0, false) && record(3) == (0, false))
        #expect(record(4) == (1, true))
        #expect(history.it.start.state.entries == [1] && history.it.start.revision == 1)
        #expect(history.it.undo()?.entries == [3] && history.it.undo()?.entries == [2])
        #expect(history.it.redo()?.entries == [3])
        #expect(record(5) == (1, false))
        #expect(history.it.entries.map(\.revision) == [2, 3, 5])
        #expect(history.it.jump(to: 2)?.entries == [2] && history.it.position == 1)
        #expect(history.it.jump(to: 4) == nil && history.it.position == 1)
        #expect(history.it.jump(to: 1)?.entries == [1] && history.it.position == 0)
    }
}
