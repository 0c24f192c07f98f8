import Dispatch
import FluxCore
import TestSupport
import Testing

/// C3: what one thread dispatches or fires reaches each store in that order.
@Suite struct C3ProgramOrderTests {
    @Test(.stress) func `Stress: a store applies the actions of each of 8 threads in the order dispatched`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        await onThreads(8) { producer in
            for number in 1...10_000 {
                if number.isMultiple(of: 3) {
                    store.dispatch(action: .mark(producer: producer, number: number))
                } else {
                    dispatcher.dispatch(action: Counter.Action.mark(producer: producer, number: number))
                }
            }
        }
        #expect(store.state.count == 80_000)
        #expect(store.state.disorder == 0)
    }

    @Test(.stress) func `Stress: a creator converts the events of each of 8 threads in the order fired`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        await onThreads(8) { producer in
            for number in stride(from: 1, to: 9_000, by: 3) {
                creator.fire(.mark(producer: producer, number: number))
                creator.fire([
                    .mark(producer: producer, number: number + 1), .mark(producer: producer, number: number + 2),
                ])
            }
        }
        await creator.flush()
        #expect(store.state.count == 72_000)
        #expect(store.state.disorder == 0)
    }

    @Test func `Events fired with a serial execution queue are converted on it, in the order fired`() async {
        let key = DispatchSpecificKey<String>()
        let queue = DispatchQueue(label: "execution")
        queue.setSpecific(key: key, value: "here")
        let seen = Recorder<String?>()
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<LocatedConverter>(
            dependency: { seen.record(DispatchQueue.getSpecific(key: key)) }, store: store)
        for number in 0..<1_000 { creator.fire(.init(number: number), executionQueue: queue) }
        creator.fire([.init(number: 1_000), .init(number: 1_001)], executionQueue: queue)
        await creator.flush()
        #expect(store.state.entries == Array(0...1_001))
        #expect(seen.values.allSatisfy { $0 == "here" })
        creator.fire(.init(number: 0))
        await creator.flush()
        #expect(seen.values.last == .some(nil))
    }

    enum LocatedConverter: FluxActionConverter {
        struct Event: FluxEvent { let number: Int }
        static func convert(
            event: Event, dependency: @escaping @Sendable () -> Void, actionHandler: @escaping (Counter.Action) -> Void
        ) {
            dependency()
            actionHandler(.add(event.number))
        }
    }

    @Test func `A converter may send no action or many, later, on any thread, after its creator is released`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let hold = HandlerHold<Counter.Action>()
        do {
            let creator = FluxActionCreator<CounterConverter>(store: store)
            creator.fire([.nothing, .add(1), .addMany([2, 3]), .hold(hold)])
            await hold.isKept.opened()
        }
        await onThreads(4) { index in
            for _ in 0..<100 { hold.send(.add(10 + index)) }
        }
        hold.letGo()
        #expect(store.state.entries.prefix(3) == [1, 2, 3])
        #expect(store.state.entries.count == 403)
    }

    @Test func `Firing no events does nothing`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        creator.fire([])
        await creator.flush()
        #expect(store.state.entries.isEmpty)
    }
}
