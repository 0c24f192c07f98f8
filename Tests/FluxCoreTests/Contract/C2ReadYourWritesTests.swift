import FluxCore
import TestSupport
import Testing

/// C2: when `dispatch(action:)` returns, `store.state` has the change.
@Suite struct C2ReadYourWritesTests {
    @Test func `A dispatch to a store changes its state at once and returns the revision`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        #expect(store.dispatch(action: .add(2)) == 1)
        #expect(store.state.count == 2)
        #expect(store.revision == 1)
    }

    @Test func `A dispatch to a dispatcher changes all stores and returns how many announced a change`() {
        let dispatcher = FluxDispatcher()
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let log = FluxStore(initialState: Log(), dispatcher: dispatcher)
        #expect(dispatcher.dispatch(action: Counter.Action.add(2)) == 2)
        #expect(counter.state.count == 2)
        #expect(log.state.entries == [2])
        #expect(dispatcher.dispatch(action: Counter.Action.addSilently(1)) == 0)
        #expect(counter.state.count == 3)
    }

    @Test func `A silent change is kept and delivered with the next announced change`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<Int>()
        let subscription = store.subscribe { seen.record($0.count) }
        #expect(store.dispatch(action: .addSilently(5)) == nil)
        #expect(store.state.count == 5)
        #expect(store.revision == 0)
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == [6])
        subscription.unsubscribe()
    }

    @Test func `An action handler has dispatched its action when it returns`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let hold = HandlerHold<Counter.Action>()
        creator.fire(.hold(hold))
        await hold.isKept.opened()
        hold.send(.add(7))
        #expect(store.state.count == 7)
        hold.letGo()
    }

    @Test(.stress) func `Stress: each of 8 threads reads its own writes`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let stale = Locked(0)
        await onThreads(8) { producer in
            for number in 1...10_000 {
                let revision = store.dispatch(action: .mark(producer: producer, number: number))!
                if store.state.marks[producer] != number || store.revision < revision { stale.withLock { $0 += 1 } }
            }
        }
        #expect(stale.current == 0)
    }
}
