import Synchronization
import Testing

@testable import FluxCore

/// The rules of a mailbox other than the lossless one, driven by integers.
@Suite struct MailboxRulesTests {
    final class Rig {
        typealias Mailbox = FluxMailbox<Int, Int, Int>
        var mailbox: Mailbox
        var batch = Mailbox.Batch()
        var newest: UInt64 = 0

        init(_ kind: FluxDelivery.Kind, bound: FluxBound? = nil) {
            mailbox = Mailbox(Mailbox.Rule(kind, bound: bound), bound: bound)
        }

        @discardableResult
        func put() -> Bool {
            newest += 1
            return mailbox.put(Int(newest))
        }

        @discardableResult
        func join(_ member: Int, current: Bool = false) -> Bool {
            mailbox.join(member, id: UInt64(member), start: newest, snapshot: current ? Int(newest) : nil)
        }

        func wait(_ waiter: Int) -> Bool { mailbox.wait(waiter) }

        func begin() -> Bool {
            mailbox.begin(&batch)
            return exchange()
        }

        func exchange() -> Bool {
            batch.elements.removeAll()
            batch.joined = []
            batch.waiters = []
            return mailbox.exchange(&batch, newest: newest, current: Int(newest))
        }

        /// Drains to the end; the elements of each batch.
        func drain() -> [[Int]] {
            var batches: [[Int]] = []
            var isDue = begin()
            while isDue {
                batches.append(batch.elements.compactMap { $0 })
                isDue = exchange()
            }
            return batches
        }
    }

    @Test func `latest: however many were put, one batch of the newest, and nothing is kept`() {
        let rig = Rig(.latest)
        rig.join(1)
        #expect(rig.put())
        #expect(!rig.put())
        #expect(!rig.put())
        #expect(rig.mailbox.pending.isEmpty)
        #expect(rig.drain() == [[3]])
        #expect(rig.put())
        #expect(rig.drain() == [[4]])
    }

    @Test func `latest: put while a drain is at work is due again`() {
        let rig = Rig(.latest)
        rig.join(1)
        rig.put()
        #expect(rig.begin())
        #expect(!rig.put())
        #expect(rig.mailbox.isDue)
        #expect(rig.exchange())
        #expect(rig.batch.elements == [2])
        #expect(!rig.exchange())
        #expect(!rig.mailbox.isDue)
    }

    @Test func `latest: one who joins is handed the newest as its snapshot, and no member gets one twice`() {
        let rig = Rig(.latest)
        rig.join(1)
        rig.put()
        rig.join(2, current: true)
        rig.join(3)
        rig.put()
        #expect(rig.begin())
        #expect(rig.batch.joined.map(\.snapshot) == [2, 2], "3 joined before the second")
        #expect(rig.batch.joined.map(\.start) == [2, 2])
        #expect(rig.batch.elements == [2])
        #expect(rig.batch.first == 2)
        #expect(!rig.exchange())

        rig.join(4, current: true)
        #expect(rig.begin())
        #expect(rig.batch.elements.isEmpty, "for the others there is nothing new")
        #expect(rig.batch.joined.map(\.snapshot) == [2])
    }

    @Test func `latest: one who joins after the newest and asked for nothing gets nothing`() {
        let rig = Rig(.latest)
        rig.join(1)
        rig.put()
        rig.join(2)
        #expect(rig.begin())
        #expect(rig.batch.joined.map(\.snapshot) == [nil])
    }

    @Test(arguments: [1, 2, 3, 16, 40])
    func `newest: at most so many wait, the oldest go and are counted`(limit: Int) {
        let bound = FluxBound(.newest, limit: limit)
        let rig = Rig(.every, bound: bound)
        rig.join(1)
        for _ in 0..<100 { rig.put() }
        #expect(rig.drain().flatMap { $0 } == Array((101 - limit)...100))
        #expect(bound.drops.count.load(ordering: .relaxed) == 100 - limit)
    }

    @Test(arguments: [1, 2, 3, 16, 40])
    func `oldest: at most so many wait, the new are left out and counted`(limit: Int) {
        let bound = FluxBound(.oldest, limit: limit)
        let rig = Rig(.every, bound: bound)
        rig.join(1)
        for _ in 0..<100 { rig.put() }
        #expect(rig.drain().flatMap { $0 } == Array(1...limit))
        #expect(bound.drops.count.load(ordering: .relaxed) == 100 - limit)
        rig.put()
        #expect(rig.drain() == [[101]], "there is room again")
    }

    @Test func `bounded: a batch is one element, so that the others still wait`() {
        let rig = Rig(.every, bound: FluxBound(.newest, limit: 2))
        rig.join(1)
        for _ in 0..<2 { rig.put() }
        #expect(rig.begin())
        #expect(rig.batch.elements == [1])
        for _ in 0..<2 { rig.put() }
        #expect(rig.exchange())
        #expect(rig.batch.elements == [3], "2 had to go")
    }

    @Test func `failing: what waits is handed over, then the bound, once`() {
        let bound = FluxBound(.failing { _ in }, limit: 2)
        let rig = Rig(.every, bound: bound)
        rig.join(1)
        for _ in 0..<5 { rig.put() }
        #expect(rig.begin())
        #expect(rig.batch.elements == [1])
        #expect(rig.batch.overflow == nil)
        #expect(rig.exchange())
        #expect(rig.batch.elements == [2])
        #expect(rig.batch.overflow === bound)
        rig.batch.overflow = nil
        #expect(!rig.exchange())
    }

    @Test func `bounded: a waiter is told once what was there has gone, though more comes all the time`() {
        let rig = Rig(.every, bound: FluxBound(.newest, limit: 3))
        rig.join(1)
        for _ in 0..<3 { rig.put() }
        #expect(rig.wait(7))
        #expect(rig.begin())
        #expect(rig.batch.waiters.isEmpty)
        rig.put()
        rig.put()
        #expect(rig.exchange())
        #expect(rig.batch.waiters == [7], "1 was taken, 2 dropped, and 3 is in this batch")
    }

    @Test(arguments: [FluxBound.Rule.newest, .oldest, .failing { _ in }])
    func `bounded: a waiter is told though the member leaves while what it waited for waits`(rule: FluxBound.Rule) {
        let rig = Rig(.every, bound: FluxBound(rule, limit: 3))
        rig.join(1)
        for _ in 0..<5 { rig.put() }
        #expect(rig.begin())
        #expect(rig.wait(7))
        #expect(rig.mailbox.leave(id: 1).elements.compactMap { $0 }.count == 2)
        #expect(rig.exchange())
        #expect(rig.batch.waiters == [7])
        #expect(!rig.exchange())

        rig.join(2)
        rig.put()
        #expect(rig.wait(8))
        #expect(rig.begin())
        #expect(rig.batch.waiters == [8], "the count goes on where it was")
    }

    @Test func `failing: one who waits behind the overflow is told with what came before it`() {
        let rig = Rig(.every, bound: FluxBound(.failing { _ in }, limit: 2))
        rig.join(1)
        for _ in 0..<5 { rig.put() }
        #expect(rig.wait(7))
        #expect(rig.begin())
        #expect(rig.batch.waiters.isEmpty)
        #expect(rig.exchange())
        #expect(rig.batch.overflow != nil)
        #expect(rig.batch.waiters == [7])
        #expect(!rig.exchange())
    }

    /// Whatever happens in whatever order: who waits is told before the mailbox comes to rest, or is dropped with it.
    @Test func `Nobody is left to wait in a mailbox at rest, by any rule and any course`() {
        var random = SystemRandomNumberGenerator()
        for round in 0..<3_000 {
            let kinds: [(FluxDelivery.Kind, FluxBound?)] = [
                (.every, nil), (.latest, nil), (.every, FluxBound(.newest, limit: 1 + round % 3)),
                (.every, FluxBound(.oldest, limit: 1 + round % 3)),
                (.every, FluxBound(.failing { _ in }, limit: 1 + round % 3)),
            ]
            let (kind, bound) = kinds[round % kinds.count]
            let rig = Rig(kind, bound: bound)
            var (steps, waiting, told, last) = ("", 0, 0, 0)
            var member: Int?
            func drained(_ isDue: Bool) {
                told += rig.batch.waiters.count
                if !isDue && told != waiting { Issue.record("\(kind) \(rig.mailbox.rule): at rest after \(steps)") }
            }
            for _ in 0..<40 {
                switch Int.random(in: 0..<10, using: &random) {
                case 0...3:
                    rig.put()
                    steps += "p"
                case 4:
                    if rig.wait(waiting) { waiting += 1 }
                    steps += "w"
                case 5 where member == nil:
                    last += 1
                    member = last
                    rig.join(last, current: Bool.random(using: &random))
                    steps += "j"
                case 6:
                    guard let id = member else { continue }
                    _ = rig.mailbox.leave(id: UInt64(id))
                    member = nil
                    steps += "l"
                default:
                    switch rig.mailbox.phase {
                    case .idle: continue
                    case .scheduled: drained(rig.begin())
                    case .draining: drained(rig.exchange())
                    }
                    steps += "d"
                }
            }
        }
    }

    @Test func `The last to leave takes along what waits, and the next starts afresh`() {
        for kind in [FluxDelivery.latest, .buffered(newest: 2), .buffered(oldest: 2)] {
            let rig = Rig(kind.kind, bound: FluxBound(kind))
            rig.join(1)
            for _ in 0..<5 { rig.put() }
            _ = rig.mailbox.leave(id: 1)
            #expect(rig.drain() == [])
            #expect(!rig.put())
            rig.join(2)
            #expect(rig.put())
            #expect(rig.drain() == [[7]])
        }
    }
}
