import Testing

@testable import FluxCore

/// The machine behind lossless delivery, driven by integers: no thread, no lock, no async.
@Suite struct FluxMailboxTests {
    typealias Mailbox = FluxMailbox<String, Int, Int>

    /// A mailbox with the newest element's number, and the batch of its drain.
    final class Rig {
        var mailbox = Mailbox()
        var batch = Mailbox.Batch()
        var newest: UInt64 = 0

        func put(_ element: String) -> Bool {
            newest += 1
            return mailbox.put(element)
        }

        func join(_ member: Int, snapshot: String? = nil) -> Bool {
            mailbox.join(member, id: UInt64(member), start: newest, snapshot: snapshot)
        }

        func begin() -> Bool {
            mailbox.begin(&batch)
            return mailbox.exchange(&batch, newest: newest)
        }

        func exchange() -> Bool {
            batch.elements.removeAll(keepingCapacity: true)
            batch.joined = []
            batch.waiters = []
            batch.gone = []
            return mailbox.exchange(&batch, newest: newest)
        }

        var members: [Int] {
            var members: [Int] = []
            batch.members.updateEach { members.append($0) }
            return members
        }
    }

    @Test func `Nobody there: nothing is kept and no drain is asked for`() {
        let rig = Rig()
        #expect(!rig.put("a"))
        #expect(rig.mailbox.pending.isEmpty)
        #expect(rig.mailbox.isAbandoned)
    }

    @Test func `Only the first of several puts asks for a drain`() {
        let rig = Rig()
        #expect(!rig.join(1))
        #expect(rig.put("a"))
        #expect(!rig.put("b"))
        #expect(rig.begin())
        #expect(rig.batch.elements == ["a", "b"])
        #expect(rig.batch.first == 1)
        #expect(!rig.put("c"))
        #expect(rig.exchange())
        #expect(rig.batch.elements == ["c"])
        #expect(rig.batch.first == 3)
        #expect(!rig.exchange())
        #expect(rig.put("d"), "idle again, so the next put asks for a drain")
    }

    @Test func `The two buffers swap and keep their capacity`() {
        let rig = Rig()
        _ = rig.join(1)
        for _ in 0..<100 { _ = rig.put("x") }
        _ = rig.begin()
        let capacity = rig.batch.elements.capacity
        #expect(!rig.exchange())
        #expect(rig.mailbox.spare.capacity == capacity)
        _ = rig.put("y")
        #expect(rig.begin())
        #expect(rig.mailbox.pending.capacity == capacity)
    }

    @Test func `A buffer grown by a burst is given back`() {
        let rig = Rig()
        _ = rig.join(1)
        for _ in 0...FluxLimits.keptCapacity { _ = rig.put("x") }
        _ = rig.begin()
        #expect(!rig.exchange())
        #expect(rig.mailbox.spare.capacity == 0)
    }

    @Test func `One who joins while elements are due starts after the newest`() {
        let rig = Rig()
        _ = rig.join(1)
        _ = rig.put("a")
        #expect(!rig.join(2))
        _ = rig.put("b")
        #expect(rig.begin())
        #expect(rig.members == [1, 2])
        #expect(rig.batch.joined.map(\.start) == [1])
        #expect(rig.batch.elements == ["a", "b"])
    }

    @Test func `A snapshot asks for a drain of its own`() {
        let rig = Rig()
        #expect(rig.join(1, snapshot: "now"))
        #expect(rig.begin())
        #expect(rig.batch.joined.map(\.snapshot) == ["now"])
        #expect(rig.batch.elements.isEmpty)
        #expect(!rig.exchange())
        #expect(rig.mailbox.members.count == 1)
    }

    @Test func `Leaving in each phase gives the member back exactly once`() {
        let idle = Rig()
        _ = idle.join(1)
        #expect(idle.mailbox.leave(id: 1).member == 1)
        #expect(idle.mailbox.isAbandoned)

        let scheduled = Rig()
        _ = scheduled.join(1)
        _ = scheduled.put("a")
        let departure = scheduled.mailbox.leave(id: 1)
        #expect(departure.member == 1)
        #expect(departure.elements == ["a"], "nobody is left to get it")
        #expect(scheduled.mailbox.isAbandoned)

        let draining = Rig()
        _ = draining.join(1)
        _ = draining.join(2)
        _ = draining.put("a")
        _ = draining.begin()
        #expect(draining.mailbox.leave(id: 1).member == nil)
        draining.mailbox.purge(&draining.batch)
        #expect(draining.batch.gone == [1])
        #expect(draining.batch.members.positions == 2, "positions stay while the batch is delivered")
        #expect(draining.mailbox.leave(id: 2).member == nil)
        #expect(!draining.exchange())
        #expect(draining.batch.gone == [2])
        #expect(draining.mailbox.isAbandoned)

        let joining = Rig()
        _ = joining.join(1)
        _ = joining.put("a")
        _ = joining.begin()
        _ = joining.join(2)
        #expect(joining.mailbox.leave(id: 2).member == 2)
        #expect(!joining.exchange())
        #expect(joining.members.isEmpty)
    }

    @Test func `With nobody left a drain's mailbox keeps nothing, and a newcomer finds no gap`() {
        let rig = Rig()
        _ = rig.join(1)
        _ = rig.put("a")
        _ = rig.begin()
        _ = rig.put("b")
        #expect(rig.mailbox.leave(id: 1).elements == ["b"])
        #expect(!rig.put("c"))
        #expect(rig.mailbox.pending.isEmpty)
        #expect(!rig.join(2))
        _ = rig.put("d")
        #expect(rig.exchange())
        #expect(rig.batch.elements == ["d"])
        #expect(rig.batch.first == 4)
        #expect(rig.batch.joined.map(\.start) == [3])
    }

    @Test func `Waiters go with the batch that they waited for`() {
        let rig = Rig()
        #expect(rig.mailbox.wait(1) == false, "nothing is due")
        _ = rig.join(1)
        _ = rig.put("a")
        #expect(rig.mailbox.wait(2) == true)
        _ = rig.begin()
        #expect(rig.batch.waiters == [2])
        #expect(rig.mailbox.wait(3) == true, "the batch is not delivered yet")
        #expect(rig.exchange())
        #expect(rig.batch.waiters == [3])
        #expect(rig.batch.elements.isEmpty)
        #expect(!rig.exchange())
    }

    @Test func `The end comes after what is due`() {
        let idle = Rig()
        _ = idle.join(1)
        #expect(idle.mailbox.end() == [1])
        #expect(idle.mailbox.isAbandoned)

        let due = Rig()
        _ = due.join(1)
        _ = due.put("a")
        #expect(due.mailbox.end() == [])
        #expect(due.begin())
        #expect(due.batch.elements == ["a"])
        #expect(!due.exchange())
        #expect(due.batch.gone == [1])
        #expect(due.mailbox.isAbandoned)
    }

    @Test func `A drain that pauses gives everything back for the next`() {
        let rig = Rig()
        _ = rig.join(1)
        _ = rig.put("a")
        _ = rig.begin()
        rig.batch.elements.removeAll(keepingCapacity: true)
        rig.mailbox.pause(&rig.batch)
        #expect(!rig.put("b"), "a drain is scheduled already")
        #expect(rig.mailbox.leave(id: 1).member == 1, "members are at home between two drains")
    }

    @Test func `A drain that pauses lets go of those who left meanwhile`() {
        let rig = Rig()
        _ = rig.join(1)
        _ = rig.join(2)
        _ = rig.put("a")
        _ = rig.begin()
        #expect(rig.mailbox.leave(id: 1).member == nil)
        rig.batch.elements.removeAll(keepingCapacity: true)
        rig.mailbox.pause(&rig.batch)
        #expect(rig.batch.gone == [1])
        #expect(rig.mailbox.leave(id: 2).member == 2)
        #expect(rig.mailbox.isAbandoned)
        #expect(rig.mailbox.members.isEmpty, "or one of them is dropped with the mailbox and never released")
    }

    @Test func `Empty places are closed between two batches, and never within one`() {
        let rig = Rig()
        for member in 1...5 { _ = rig.join(member) }
        _ = rig.put("a")
        _ = rig.begin()
        for member in 1...4 { _ = rig.mailbox.leave(id: UInt64(member)) }
        rig.mailbox.purge(&rig.batch)
        #expect(rig.batch.gone == [1, 2, 3, 4])
        #expect(rig.batch.members.positions == 5, "who gets an element is counted in positions")
        _ = rig.put("b")
        #expect(rig.exchange())
        #expect(rig.batch.members.positions == 1)
        #expect(rig.members == [5])
    }

    /// The burst's buffer is given back only if nothing at all arrives while it is delivered.
    @Test func `A buffer grown by a burst is given back though something came after the burst`() {
        let rig = Rig()
        _ = rig.join(1)
        for _ in 0...FluxLimits.keptCapacity { _ = rig.put("x") }
        _ = rig.begin()
        _ = rig.put("y")
        #expect(rig.exchange())
        #expect(!rig.exchange())
        #expect(rig.mailbox.pending.capacity <= FluxLimits.keptCapacity)
        #expect(rig.mailbox.spare.capacity <= FluxLimits.keptCapacity)
    }
}
