import Dispatch
import FluxCore
import FluxObservation
import TestSupport
import Testing

/// What is known as a source alone, and sources that are made of others.
@Suite struct SourceTests {
    /// Hands on the count of a store.
    struct Count: WrappedSource {
        let base: FluxView<Int>
        init(_ store: FluxStore<Counter>) { base = store.view(\.count) }
    }

    @Test func `Whoever knows any source alone reads it, watches it, and combines it with others`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let sources: [any FluxSource<Counter>] = [store, FluxStore(initialState: Counter(), dispatcher: dispatcher)]
        let count: any FluxSource<Int> = Count(store)
        let seen = Recorder<Int>()
        let sum = FluxView(FluxView(sources) { $0[0].count + $0[1].count }, FluxView([count]) { $0[0] }) { $0 + $1 }
        let subscriptions = [count.subscribe { seen.record($0) }, sum.subscribe { seen.record($0) }]
        dispatcher.dispatch(action: Counter.Action.add(2))
        #expect(count.state == 2)
        #expect(sum.state == 6)
        await sum.flush()
        await count.flush()
        #expect(seen.values.sorted() == [2, 6])
        FluxSubscription(subscriptions).unsubscribe()
    }
}
