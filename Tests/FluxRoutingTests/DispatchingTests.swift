import Dispatch
import FluxCore
import FluxRouting
import TestSupport
import Testing

/// Types that replace a dispatcher, and the short forms.
@Suite struct DispatchingTests {
    /// Sends actions through a queue, and keeps a log of them.
    struct Queued: FluxDispatching {
        let queue = DispatchQueue(label: "actions")
        let log = Recorder<String>()
        let dispatcher: FluxDispatcher

        func dispatch<Action: FluxAction>(action: Action) -> Int {
            log.record("\(action)")
            queue.async { dispatcher.dispatch(action: action) }
            return 0
        }
    }

    @Test func `A creator sends its actions through a custom FluxDispatching type`() async {
        let queued = Queued(dispatcher: FluxDispatcher())
        let store = FluxStore(initialState: Log(), dispatcher: queued.dispatcher)
        let creator = FluxActionCreator<CounterConverter>(dependency: (), dispatcher: queued)
        creator.fire([.add(1), .add(2)])
        await creator.flush()
        queued.queue.sync {}
        #expect(queued.log.values == ["add(1)", "add(2)"])
        #expect(store.state.entries == [1, 2])
    }

    @Test func `The short form dispatches on the shared dispatcher, or on a given one`() {
        struct Ping: FluxAction {}
        struct Pings: FluxState {
            var count = 0
            mutating func handle(action: Ping) -> Pings? {
                count += 1
                return self
            }
        }
        let (shared, own) = (FluxStore(initialState: Pings()), FluxDispatcher())
        let mine = FluxStore(initialState: Pings(), dispatcher: own)
        #expect(Ping().dispatch() == 1)
        #expect(Ping().dispatch(with: own) == 1)
        #expect(shared.state.count == 1 && mine.state.count == 1)
    }
}
