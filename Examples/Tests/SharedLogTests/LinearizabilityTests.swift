import ProgramTesting
import Testing

@testable import cluster_demo

/// Histories whose result is known.
@Suite struct LinearizabilityTests {
    private func append(_ item: UInt64, at index: Int?, _ call: UInt64, _ end: UInt64) -> Linearizability.Operation {
        .init(kind: .append(item, index: index), call: call, end: end)
    }

    private func read(_ items: [UInt64], _ call: UInt64, _ end: UInt64) -> Linearizability.Operation {
        var digest = Digest()
        for item in items { digest.add(item) }
        return .init(kind: .read(digest), call: call, end: end)
    }

    @Test("Overlapping operations may have happened in either order, and others in only one")
    func order() {
        #expect(Linearizability.holds([]))
        #expect(Linearizability.holds([append(7, at: 0, 0, 10), read([], 1, 5), read([7], 6, 8)]))
        #expect(Linearizability.holds([append(7, at: 1, 0, 10), append(8, at: 0, 5, 12), read([8, 7], 13, 14)]))
        #expect(!Linearizability.holds([append(7, at: 1, 0, 4), append(8, at: 0, 5, 12)]))
        #expect(!Linearizability.holds([append(7, at: 0, 0, 10), read([7], 1, 5), read([], 6, 8)]))
        #expect(!Linearizability.holds([append(7, at: 0, 0, 10), read([], 11, 12)]), "a stale read")
        #expect(!Linearizability.holds([read([7], 0, 1), append(7, at: 0, 2, 3)]), "a read of what is not written yet")
    }

    @Test("An operation without an answer may have happened at any time after its call, or never")
    func unknown() {
        let lost = append(7, at: nil, 0, .max)
        #expect(Linearizability.holds([lost, read([], 5, 6)]))
        #expect(Linearizability.holds([lost, read([], 5, 6), read([7], 50, 60)]))
        #expect(!Linearizability.holds([lost, read([7], 5, 6), read([], 50, 60)]))
        #expect(!Linearizability.holds([read([7], 0, 1), append(7, at: nil, 2, .max)]))
    }

    @Test("A long history of one list is linearizable, but not once one of its reads is stale")
    func long() {
        var random = SplitMix(seed: 4)
        for _ in 0..<20 {
            // Each operation takes effect at 100 plus 10 times its number, and begins and ends within 40 of that.
            var digest = Digest()
            var operations: [Linearizability.Operation] = []
            for number in 0..<2_000 {
                let moment = UInt64(number) * 10 + 100
                let call = moment - .random(in: 0...40, using: &random)
                let end = moment + .random(in: 0...40, using: &random)
                if Bool.random(using: &random) {
                    let index = Int.random(in: 0..<20, using: &random) == 0 ? nil : digest.count
                    digest.add(moment)
                    operations.append(append(moment, at: index, call, index == nil ? .max : end))
                } else {
                    operations.append(.init(kind: .read(digest), call: call, end: end))
                }
            }
            #expect(Linearizability.holds(operations))
            let stale = operations.lastIndex { if case .read = $0.kind { true } else { false } }
            if let stale { operations[stale] = read([], operations[stale].call, operations[stale].end) }
            #expect(!Linearizability.holds(operations))
        }
    }
}
