import FluxCore
import Testing

/// What is known as a source alone, and sources that are made of others.
@Suite struct SourceTests {
    /// Hands on the count of a store.
    struct Count: FluxSource {
        let part: FluxView<Int>
        init(_ store: FluxStore<Counter>) { part = store.view(\.count) }
        var feed: FluxFeed<Int> { part.feed }
    }

    @Test func `Whoever knows any source alone reads it, watches it, and combines it with others`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let sources: [any FluxSource<Counter>] = [store, FluxStore(initialState: Counter(), dispatcher: dispatcher)]
        let count: any FluxSource<Int> = Count(store)
        let seen = Recorder<Int>()
        let sum = FluxView(sources[0].feed, sources[1].feed, count.feed) { $0.count + $1.count + $2 }
        let subscriptions = [count.subscribe { seen.record($0) }, sum.subscribe { seen.record($0) }]
        dispatcher.dispatch(action: Counter.Action.add(2))
        #expect(count.state == 2)
        #expect(sum.state == 6)
        await sum.flush()
        await count.flush()
        #expect(seen.values.sorted() == [2, 6])
        FluxSubscription(subscriptions).unsubscribe()
    }

    @Test func `A feed does not keep its store, which can be read all the same`() async {
        var store: FluxStore? = FluxStore(initialState: Counter(), dispatcher: nil)
        let feed = store!.feed
        var values = feed.values(of: \.count, .every).makeAsyncIterator()
        #expect(await values.next() == 0)
        store!.dispatch(action: .add(3))
        store = nil
        #expect(await values.next() == 3)
        #expect(await values.next() == nil)
        #expect(feed.state.count == 3)
        #expect(feed.feed.state.count == 3)
    }
}
