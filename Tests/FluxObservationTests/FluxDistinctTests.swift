import FluxCore
import Testing

@testable import FluxObservation

/// The filter that keeps an iterator from returning equal elements in succession, driven by integers.
@Suite struct FluxDistinctTests {
    private func passed(_ elements: [Int], after last: Int? = nil, by isSame: (@Sendable (Int, Int) -> Bool)?) -> [Int]
    {
        let passed = [false, true].map { isAlone in
            let distinct = FluxDistinct(by: isSame, after: last, isAlone: isAlone)
            return elements.filter { distinct.change(to: $0) != nil }
        }
        #expect(passed[0] == passed[1])
        return passed[0]
    }

    @Test(arguments: [
        ([], []), ([1], [1]), ([1, 1, 1], [1]), ([1, 2, 1], [1, 2, 1]), ([1, 1, 2, 2, 1], [1, 2, 1]),
    ])
    func `An element that equals the last one that passed does not pass`(elements: [Int], passing: [Int]) {
        #expect(passed(elements, by: ==) == passing)
    }

    @Test func `An element that was known before the first counts as passed`() {
        #expect(passed([1, 2, 1], after: 1, by: ==) == [2, 1])
    }

    @Test func `The filter uses the given comparison, and compares with the last element that passed`() {
        #expect(passed([1, 2, 3, 4, 5], by: { abs($0 - $1) < 2 }) == [1, 3, 5])
    }

    @Test func `Without a comparison all elements pass`() {
        #expect(passed([1, 1, 2], after: 1, by: nil) == [1, 1, 2])
    }
}
