import FluxCore
import TestSupport
import Testing

@testable import FluxDiagnostics

/// The machine behind a history.
@Suite struct HistoryMachineTests {
    @Test func `A history handles every input at its start, in its middle and at its end`() {
        let history = Box(FluxHistoryMachine(state: Log(), revision: 0, limit: 3))
        func record(_ number: Int) -> (entries: Int, start: Bool) {
            let state = Log(entries: [number])
            let forgotten = history.it.record(.action(.add(number)), state, UInt64(number))
            return (forgotten.undone.count + (forgotten.oldest == nil ? 0 : 1), forgotten.start != nil)
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

    @Test func `A silent change has the revision of the last announced change or move`() {
        let history = Box(FluxHistoryMachine(state: Log(), revision: 4, limit: 2))
        _ = history.it.record(.action(.addSilently(1)), Log(), nil)
        history.it.revision = 5
        _ = history.it.record(.action(.addSilently(1)), Log(), nil)
        #expect(history.it.entries.map(\.revision) == [4, 5])
    }

    @Test
    func `A jump leads to the last of several states of one revision, and undo goes through each`() {
        let history = Box(FluxHistoryMachine(state: Log(), revision: 4, limit: 3))
        for number in 1...2 { _ = history.it.record(.action(.addSilently(number)), Log(entries: [number]), nil) }
        _ = history.it.record(.action(.add(3)), Log(entries: [3]), 5)
        #expect(history.it.jump(to: 4)?.entries == [2] && history.it.position == 2)
        #expect(history.it.undo()?.entries == [1] && history.it.undo()?.entries == [] && history.it.position == 0)
    }

    @Test func `An empty history starts at the loaded state`() {
        let history = Box(FluxHistoryMachine(state: Log(), revision: 0, limit: 2))
        #expect(history.it.restart(Log(entries: [7]), 3).start?.entries == [])
        #expect(history.it.start.state.entries == [7] && history.it.start.revision == 3)
        // A change that is not announced has the revision of the loaded state.
        _ = history.it.record(.action(.addSilently(1)), Log(entries: [7]), nil)
        _ = history.it.record(.action(.add(1)), Log(entries: [7, 1]), 4)
        #expect(history.it.entries.map(\.revision) == [3, 4])
    }

    @Test func `The ring buffer has the same entries as a plain list, also after undo and redo`() {
        for limit in 1...5 {
            let history = Box(FluxHistoryMachine(state: Log(), revision: 0, limit: limit))
            var list: [UInt64] = []
            var position = 0
            var random = SystemRandomNumberGenerator()
            for number in UInt64(1)...500 {
                switch random.next(upperBound: UInt64(4)) {
                case 0: if history.it.undo() != nil { position -= 1 }
                case 1: if history.it.redo() != nil { position += 1 }
                default:
                    _ = history.it.record(.action(.add(1)), Log(), number)
                    list = Array((list.prefix(position) + [number]).suffix(limit))
                    position = list.count
                }
                #expect(history.it.entries.map(\.revision) == list && history.it.position == position)
            }
        }
    }
}
