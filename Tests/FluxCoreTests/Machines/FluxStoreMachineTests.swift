import Testing

@testable import FluxCore

/// What the lock of a store guards, with strings for outlets and integers for members and waiters.
@Suite struct FluxStoreMachineTests {
    typealias Machine = FluxStoreMachine<Counter, String, Int, Int>

    @Test func `A change without an announcement stays, and has no revision`() {
        let machine = Box(Machine(state: Counter()))
        #expect(machine.it.apply(.add(1)).revision == 1)
        #expect(machine.it.apply(.addSilently(5)).revision == nil)
        #expect(machine.it.state.count == 6)
        #expect(machine.it.revision == 1)
        #expect(machine.it.apply(.add(1)).revision == 2)
        #expect(machine.it.state.count == 7)
    }

    @Test func `The state that handle returns is the one that is kept`() {
        struct Replaced: FluxState {
            var text = "old"
            mutating func handle(action: Counter.Action) -> Replaced? { Replaced(text: "new") }
        }
        let machine = Box(FluxStoreMachine<Replaced, String, Int, Int>(state: Replaced()))
        _ = machine.it.apply(.add(1))
        #expect(machine.it.state.text == "new")
    }

    @Test func `Each outlet with members is woken once, and drained by itself`() {
        let machine = Box(Machine(state: Counter()))
        machine.it.open("own", id: 1)
        machine.it.open("main", id: 2)
        #expect(machine.it.outlet { $0 == "main" } == "main")
        #expect(machine.it.outlet { $0 == "other" } == nil)
        #expect(machine.it.join(10, id: 3, outlet: 1, startingWithCurrent: false) == false)
        #expect(machine.it.join(20, id: 4, outlet: 2, startingWithCurrent: true) == true)

        var woken: [String] = []
        machine.it.apply(.add(1)).wakes.forEach { woken.append($0) }
        #expect(woken == ["own"], "the other one was scheduled by its snapshot")
        machine.it.apply(.add(1)).wakes.forEach { woken.append($0) }
        #expect(woken == ["own"], "scheduled already")
        #expect(machine.it.flush(7) == 2)

        var batch = Machine.Mailbox.Batch()
        #expect(machine.it.begin(&batch, outlet: 2) == true)
        #expect(batch.joined.map(\.snapshot?.count) == [0])
        #expect(batch.elements.map(\.?.count) == [1, 2])
        #expect(batch.waiters == [7])
    }

    @Test func `A mailbox that nobody is left in goes, with those who wait for it`() {
        let machine = Box(Machine(state: Counter()))
        machine.it.open("own", id: 1)
        _ = machine.it.join(10, id: 2, outlet: 1, startingWithCurrent: false)
        _ = machine.it.apply(.add(1))
        #expect(machine.it.flush(7) == 1)
        let remains = machine.it.leave(id: 2, outlet: 1)
        #expect(remains.members == [10])
        #expect(remains.entries.map(\.mailbox.waiters) == [[7]])
        #expect(machine.it.entries.isEmpty)
        var batch = Machine.Mailbox.Batch()
        #expect(machine.it.begin(&batch, outlet: 1) == false, "the drain that was scheduled finds nothing")
        #expect(machine.it.leave(id: 2, outlet: 1).members.isEmpty)
    }

    @Test func `The end drops idle mailboxes and leaves the others to their drain`() {
        let machine = Box(Machine(state: Counter()))
        machine.it.open("idle", id: 1)
        machine.it.open("due", id: 2)
        _ = machine.it.join(10, id: 3, outlet: 1, startingWithCurrent: false)
        _ = machine.it.join(20, id: 4, outlet: 2, startingWithCurrent: true)
        #expect(machine.it.end().members == [10])
        var batch = Machine.Mailbox.Batch()
        #expect(machine.it.begin(&batch, outlet: 2) == true)
        batch.joined = []
        #expect(machine.it.exchange(&batch, outlet: 2) == false)
        #expect(batch.gone == [20])
        #expect(machine.it.entries.isEmpty)
    }
}
