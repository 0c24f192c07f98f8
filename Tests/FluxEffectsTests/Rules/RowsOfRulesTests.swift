import FluxCore
import FluxEffects
import TestSupport
import Testing

/// The rows of the README's comparison that concern rules.
@Suite struct RowsOfRulesTests {
    let dispatcher = FluxDispatcher()

    func log() -> FluxStore<Log> { FluxStore(initialState: Log(), dispatcher: dispatcher) }

    @Test func `A unique rule cancels the earlier of two events`() async {
        let store = log()
        let site = WorkConverter.Site { $0 == 1 }
        let creator = FluxActionCreator<WorkConverter>(
            dependency: site, dispatcher: dispatcher,
            rules: [.unique(cancelling: .earlier, for: FluxRule.caseName)])
        let (first, second) = (creator.fire(.add(1)), creator.fire(.add(2)))
        #expect(await [first.outcome.name, second.outcome.name] == ["cancelled", "completed"])
        site.gate(1).open()
        #expect(store.state.entries == [2])
    }

    @Test func `A retry rule runs a failing event again, up to its limit`() async {
        let site = WorkConverter.Site()
        let creator = FluxActionCreator<WorkConverter>(
            dependency: site, dispatcher: dispatcher,
            rules: [.retry(limit: 2)], onFailure: { _, _ in })
        #expect(await creator.fire(.fail(0)).outcome.name == "failed")
        #expect(site.attempts.values == [0, 0, 0])
    }
}
