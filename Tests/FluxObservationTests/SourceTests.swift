import Dispatch
import FluxCore
import FluxObservation
import TestSupport
import Testing

/// Values known only as sources, and sources built from others.
@Suite struct SourceTests {
    /// Forwards the count of a store.
    struct Count: WrappedSource {
        let base: FluxView<Int>
        init(_ store: FluxStore<Counter>) { base = store.view(\.count) }
    }

    @Test func `A value known only as a source can be read, watched and combined with others`() async {
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

    /// Forwards to a store, and is not a source of the library.
    private struct Own: WrappedSource {
        let base = FluxStore(initialState: Counter(), dispatcher: nil)
    }

    @Test func `A token of a custom source counts dropped values, and unsubscribing discards waiting ones`() async {
        let (source, seen, queue) = (Own(), Recorder<Int>(), DispatchQueue(label: "held"))
        queue.suspend()
        let token = source.subscribe(.buffered(newest: 1), on: queue) { seen.record($0.count) }
        for _ in 0..<3 {
            source.base.dispatch(action: .add(1))
            await source.flush()
        }
        #expect(token.dropped == 2)
        token.unsubscribe()
        queue.resume()
        await token.finish()
        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
        #expect(seen.values == [])
    }

    @Test func `A view treats custom sources that are structs as separate sources`() {
        let sources = (0..<10).map { _ in Own() }
        let sum = FluxView(sources) { $0.reduce(0) { $0 + $1.count } }
        for (index, source) in sources.enumerated() {
            source.base.dispatch(action: .add(1))
            #expect(sum.state == index + 1)
        }
    }

    /// Counts the reads of its state.
    private struct Cut: WrappedSource {
        let base = FluxStore(initialState: Counter(), dispatcher: nil)
        let reads = Locked(0)

        var state: Counter {
            reads.withLock { $0 += 1 }
            return base.state
        }
    }

    @Test func `A view of two or three sources captures a custom source and never reads its state`() {
        let (source, store) = (Cut(), FluxStore(initialState: Counter(), dispatcher: nil))
        let both = FluxView(source, store) { $0.count + $1.count }
        let three = FluxView(source, store, store) { $0.count + $1.count + $2.count }
        source.base.dispatch(action: .add(1))
        #expect([both.state, three.state] == [1, 1])
        #expect(source.reads.current == 0)
    }
}
