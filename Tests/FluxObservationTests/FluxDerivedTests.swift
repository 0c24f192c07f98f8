import Testing

@testable import FluxObservation

/// The value that a view keeps, driven by integers.
@Suite struct FluxDerivedTests {
    private func next(_ value: Int, cut: UInt64, known: UInt64, isSame: Bool = false) -> FluxDerived<Int>.Action {
        FluxDerived.Action(next: FluxDerived(value: value, stamp: cut, cut: cut), known: known, isSame: isSame)
    }

    @Test func `A value that was compared with an outdated one changes nothing`() {
        var derived = FluxDerived(value: 1, stamp: 1, cut: 1)
        #expect(derived.handle(action: next(2, cut: 2, known: 1)) != nil)
        #expect(derived.handle(action: next(3, cut: 3, known: 1)) == nil)
        #expect(derived.value == 2)
        #expect(derived.cut == 2)
    }

    @Test func `A value equal to the announced one replaces the current one silently; the announced one is kept`() {
        var derived = FluxDerived(value: 1, stamp: 1, cut: 1)
        #expect(derived.handle(action: next(2, cut: 2, known: 1, isSame: true)) == nil)
        #expect([derived.value, derived.announced] == [2, 1])
        #expect(derived.handle(action: next(3, cut: 3, known: 2)) != nil)
        #expect([derived.value, derived.announced] == [3, 3])
    }
}
