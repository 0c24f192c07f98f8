import Dispatch
import FluxCore
import FluxEffects
import TestSupport
import Testing

/// What rules know of an event must not keep its conversion, and what never started must not look started.
@Suite(.timeLimit(.minutes(5))) struct RulesLetGoOfConversionsTests {
    struct Add: FluxEvent {
        let amount: Int
    }

    enum Adding: FluxActionConverter {
        static func convert(event: Add, dependency: Void, actionHandler: @escaping @Sendable (Counter.Action) -> Void) {
            actionHandler(.add(event.amount))
        }
    }

    @Test func `A callback converter under rules ends, and lets the next go on`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<Adding>(
            store: store,
            rules: [
                .sequence(for: { _ in true }, when: { $0.amount >= $1.amount }),
                .unique(cancelling: .later, for: { $0.amount }, when: { $0.amount < $1.amount }),
            ])
        let tasks = (1...100).map { creator.fire(Add(amount: $0)) }
        for task in tasks {
            guard case .completed = await task.outcome else {
                Issue.record("not completed")
                return
            }
        }
        #expect(store.state.count == 5050)
    }
}
