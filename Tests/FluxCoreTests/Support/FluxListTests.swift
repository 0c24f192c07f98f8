import Testing

@testable import FluxCore

@Suite struct FluxListTests {
    /// One element stays; many are removed one by one as others come, with as many empty slots between them.
    @Test func `Inserting while the oldest is removed moves the other elements only now and then`() {
        let count: UInt64 = 1_000
        var list = FluxList<UInt64>()
        for id in 1...2 * count + 1 { list.insert(id, id: id) }
        for id in count + 2...2 * count { list.remove(id: id) }
        var (moved, newest) = (0, 2 * count + 1)
        for oldest in 2...count {
            newest += 1
            list.insert(newest, id: newest)
            let before = list.positions
            #expect(list.remove(id: oldest) == oldest)
            if list.positions < before { moved += 1 }
        }
        #expect(moved < 20)
        #expect(list.pairs().map(\.id) == [1, count + 1] + (2 * count + 1...newest))
        for (id, element) in list.pairs() { #expect(list.remove(id: id) == element) }
        #expect(list.isEmpty && list.positions == 0)
    }

    /// A flush of a creator begins with the newest event: with none, or an older one, it would return too early.
    @Test func `The last element is the newest that remains, whichever have been removed`() {
        var list = FluxList<UInt64>()
        for id: UInt64 in 1...8 { list.insert(id, id: id) }
        for (gone, last) in [(8, 7), (6, 7), (7, 5), (1, 5), (5, 4), (4, 3), (2, 3)] as [(UInt64, UInt64)] {
            list.remove(id: gone)
            #expect(list.last == last, "without \(gone)")
        }
        list.remove(id: 3)
        #expect(list.last == nil)
    }

    @Test func `A list frees the capacity of a burst once it is empty`() {
        let count: UInt64 = 200_000
        var list = FluxList<UInt64>()
        for id in 1...count { list.insert(id, id: id) }
        for id in 1..<count { list.remove(id: id) }
        #expect(list.pairs().map(\.id) == [count])
        list.remove(id: count)
        #expect(list.isEmpty && list.rest.capacity == 0)
        list.insert(1, id: count + 1)
        #expect(list.pairs().map(\.id) == [count + 1])
    }
}
