import FluxCore
import TestSupport
import Testing

/// C1: a store applies one action at a time, `handle` runs exactly once per action, and no update is lost.
@Suite struct C1AtomicTests {
    @Test(.stress) func `Stress: 8 producers x 100,000 actions with 16 lossless subscribers lose nothing`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = (0..<16).map { _ in Locked((count: 0, disorder: 0)) }
        let subscriptions = seen.map { seen in
            store.subscribe { state in
                seen.withLock { seen in
                    if state.count != seen.count + 1 { seen.disorder += 1 }
                    seen.count = state.count
                }
            }
        }
        await onThreads(8) { _ in
            for _ in 0..<100_000 { store.dispatch(action: .add(1)) }
        }
        #expect(store.state.count == 800_000)
        #expect(store.revision == 800_000)
        await store.flush()
        for seen in seen {
            #expect(seen.current.count == 800_000)
            #expect(seen.current.disorder == 0)
        }
        subscriptions.forEach { $0.unsubscribe() }
    }

    @Test func `handle never runs twice at once, for dispatches to the store or to its dispatcher`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Exclusive(), dispatcher: dispatcher)
        await onThreads(8) { index in
            for _ in 0..<2_000 {
                if index.isMultiple(of: 2) {
                    store.dispatch(action: .step)
                } else {
                    dispatcher.dispatch(action: Exclusive.Action.step)
                }
            }
        }
        #expect(store.state.steps == 16_000)
        #expect(store.state.overlap.current == (0, 0))
    }

    /// A state that detects when two threads handle it at once.
    struct Exclusive: FluxState {
        enum Action: FluxAction { case step }
        var steps = 0
        let overlap = Locked((inside: 0, overlaps: 0))

        mutating func handle(action: Action) -> Exclusive? {
            overlap.withLock { overlap in
                overlap.inside += 1
                if overlap.inside > 1 { overlap.overlaps += 1 }
            }
            steps += 1
            overlap.withLock { $0.inside -= 1 }
            return self
        }
    }
}
