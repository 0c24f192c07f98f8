import FluxCore
import FluxEffects
import TestSupport
import Testing

/// Misuse of rules that stops the program.
@Suite struct FluxRuleMisuseTests {
    typealias Rule = FluxRule<WorkConverter.Event>
    typealias Creator = FluxActionCreator<WorkConverter>

    /// Fires two events; for the second one, a condition calls a closure with the creator and the first event's task.
    static func fire(using body: @escaping @Sendable (Creator, FluxTask) -> Void) {
        let place = Locked<(Creator, FluxTask)?>(nil)
        let rule = Rule.unique(cancelling: .earlier, for: { _ in 1 }) { _, _ in
            if let (creator, task) = place.current { body(creator, task) }
            return true
        }
        let creator = Creator(
            dependency: .init { _ in true }, store: FluxStore(initialState: Log(), dispatcher: nil), rules: [rule])
        let task = creator.fire(.add(1))
        place.withLock { $0 = (creator, task) }
        creator.fire(.add(2))
    }

    private func expect(_ result: ExitTest.Result?, says message: String) {
        let text = result.said
        #expect(text.contains(message), "\(text)")
    }

    @Test func `A condition that cancels a task stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { $1.cancel() }
        }
        expect(result, says: "FluxTask.cancel() was used inside a key, condition or FluxRuling of a FluxRule")
    }

    @Test func `A condition that reads inFlight stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { creator, _ in _ = creator.inFlight }
        }
        expect(result, says: "inFlight was used inside a key, condition or FluxRuling of a FluxRule")
    }

    @Test func `A condition that calls cancelAll stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { creator, _ in creator.cancelAll() }
        }
        expect(result, says: "cancelAll() was used inside a key, condition or FluxRuling of a FluxRule")
    }

    @Test func `A retry rule for a converter that cannot throw stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxActionCreator<CounterConverter>(
                dispatcher: FluxDispatcher(), rules: [.retry(for: FluxRule.caseName, limit: 1)])
        }
        expect(result, says: "a creator of CounterConverter has a rule .retry")
    }

    @Test func `The longest durations behave like very long ones`() async {
        let creator = Creator(
            dependency: .init(), dispatcher: FluxDispatcher(),
            rules: [
                .debounce(for: { if case .job = $0 { 1 } else { nil } }, .seconds(Int64.max)),
                .throttle(for: { _ in 2 }, .seconds(Int64.max), latest: false),
            ])
        let waiting = creator.fire(.job("x", 1))
        #expect(await creator.fire(.add(1)).outcome.name == "completed")
        #expect(await creator.fire(.add(1)).outcome.name == "dropped")
        async let counts = creator.shutdown(within: .seconds(Int64.max))
        waiting.cancel()
        let all = await counts
        #expect((all.completed, all.cancelled, all.dropped, all.unfinished) == (1, 1, 1, 0))
    }

    @Test func `The case name is the key of an enum event even if the enum describes itself`() {
        enum Described: FluxEvent, CustomStringConvertible {
            case one, two
            case three(Int)
            var description: String { self.isOne ? "the first" : "another" }
            var isOne: Bool { if case .one = self { true } else { false } }
        }
        func name(_ event: Described) -> String { "\(FluxRule<Described>.caseName(event)!)" }
        #expect(name(.three(1)) == "three")
        #expect(name(.three(2)) == "three")
        #expect(name(.one) != name(.two))
    }

    @Test func `Hashable cases with the same description have different keys`() {
        enum Alike: FluxEvent, CustomStringConvertible {
            case one, two
            var description: String { "an event" }
        }
        func name(_ event: Alike) -> String { "\(FluxRule<Alike>.caseName(event)!)" }
        #expect(name(.one) != name(.two) && name(.one) == name(.one))
    }

    @Test(.timeLimit(.minutes(5)))
    func `Events whose key does not equal itself are independent of each other and complete`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(
            store: store,
            rules: [
                .debounce(for: { _ in Double.nan }, .milliseconds(1)),
                .sequence(for: { _ in Double.nan }),
            ])
        creator.fire(.add(1))
        creator.fire(.add(2))
        await creator.flush()
        #expect(store.state.count == 3)
    }
}
