import Testing

@testable import FluxCore

@Suite struct FluxSlotsTests {
    @Test func `Order stays, whatever is removed`() {
        let slots = Box(FluxSlots<Int>())
        for id in 1...100 { slots.it.insert(id, id: UInt64(id)) }
        for id in stride(from: 2, through: 100, by: 2) { #expect(slots.it.remove(id: UInt64(id)) == id) }
        #expect(slots.it.count == 50)
        #expect(slots.it.remove(id: 2) == nil, "a second removal finds nothing")
        #expect(slots.it.remove(id: 1000) == nil)
        #expect(slots.it.removeAll() == ContiguousArray(stride(from: 1, through: 99, by: 2)))
        #expect(slots.it.isEmpty)
        #expect(slots.it.positions == 0)
    }

    @Test func `A list of one allocates nothing, and takes another after it is gone`() {
        let slots = Box(FluxSlots<Int>())
        slots.it.insert(1, id: 1)
        #expect(slots.it.rest.capacity == 0)
        #expect(slots.it.remove(id: 1) == 1)
        #expect(slots.it.positions == 0)
        slots.it.insert(2, id: 2)
        #expect(slots.it.position(of: 2) == 0)
        #expect(slots.it.rest.capacity == 0)
    }

    @Test(arguments: 1...6, 0..<64) func `Any removals leave the others in order and in reach`(count: Int, mask: Int) {
        let slots = Box(FluxSlots<Int>())
        for id in 1...count { slots.it.insert(id, id: UInt64(id)) }
        var left = Array(1...count)
        for id in 1...count where mask & (1 << (id - 1)) != 0 {
            #expect(slots.it.remove(id: UInt64(id)) == id)
            left.removeAll { $0 == id }
        }
        slots.it.insert(9, id: 9)
        left.append(9)
        #expect(slots.it.count == left.count)
        for id in left { #expect(slots.it.update(slots.it.position(of: UInt64(id))!) { $0 } == id) }
        #expect(slots.it.removeAll { $0 != 9 } == ContiguousArray(left.dropLast()))
        #expect(slots.it.remove(id: 9) == 9)
    }

    @Test func `Empty slots are dropped once they are most`() {
        let slots = Box(FluxSlots<Int>())
        for id in 1...100 { slots.it.insert(id, id: UInt64(id)) }
        for id in 1...99 { _ = slots.it.remove(id: UInt64(id)) }
        #expect(slots.it.positions <= 2)
        slots.it.insert(101, id: 101)
        #expect(slots.it.position(of: 101) == slots.it.positions - 1)
    }

    @Test func `Positions stay when compaction is put off`() {
        let slots = Box(FluxSlots<Int>())
        for id in 1...10 { slots.it.insert(id, id: UInt64(id)) }
        for id in 1...9 { _ = slots.it.remove(id: UInt64(id), compacting: false) }
        #expect(slots.it.positions == 10)
        #expect(slots.it.position(of: 10) == 9)
    }
}

@Suite struct FluxInboxTests {
    @Test func `One drain at a time, and every element in exactly one batch`() {
        let inbox = Box(FluxInbox<Int>())
        var batch: ContiguousArray<Int> = []
        #expect(inbox.it.put(1) == true)
        #expect(inbox.it.put(2) == false)
        #expect(inbox.it.take(&batch) == true)
        #expect(batch == [1, 2])
        #expect(inbox.it.put(3) == false, "the drain is still at it")
        batch.removeAll()
        #expect(inbox.it.take(&batch) == true)
        #expect(batch == [3])
        batch.removeAll()
        #expect(inbox.it.take(&batch) == false)
        #expect(inbox.it.put(4) == true)
    }
}

@Suite struct FluxWakesTests {
    @Test(arguments: 0...4) func `Every one is woken, in order`(count: Int) {
        var wakes = FluxWakes<Int>.none
        for index in 0..<count { wakes.append(index) }
        var woken: [Int] = []
        wakes.forEach { woken.append($0) }
        #expect(woken == Array(0..<count))
    }
}
