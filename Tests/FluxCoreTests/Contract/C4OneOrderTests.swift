import FluxCore
import Testing

/// C4: all stores of one dispatcher see its actions in the same order.
@Suite struct C4OneOrderTests {
    @Test func `Stress: two stores of one state type and one of another see one order`() async {
        let dispatcher = FluxDispatcher()
        let first = FluxStore(initialState: Log(), dispatcher: dispatcher)
        let second = FluxStore(initialState: Log(), dispatcher: dispatcher)
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        await onThreads(4) { producer in
            for number in 1...5_000 {
                #expect(dispatcher.dispatch(action: Counter.Action.mark(producer: producer, number: number)) == 3)
            }
        }
        #expect(first.state.entries.count == 20_000)
        #expect(first.state.entries == second.state.entries)
        #expect(counter.state.count == 20_000)
        #expect(counter.state.disorder == 0)
    }

    @Test func `Stores are reached in the order of their attachment`() {
        let dispatcher = FluxDispatcher()
        let order = Locked<[Int]>([])
        let stores = (0..<10).map { FluxStore(initialState: Noting(number: $0, order: order), dispatcher: dispatcher) }
        dispatcher.dispatch(action: Counter.Action.add(1))
        #expect(order.current == Array(0..<10))
        withExtendedLifetime(stores) {}
    }

    @Test func `Actions of another type, or for another dispatcher, do not reach a store`() {
        struct Other: FluxAction {}
        let store = FluxStore(initialState: Counter(), dispatcher: FluxDispatcher())
        let alone = FluxStore(initialState: Counter(), dispatcher: nil)
        #expect(FluxDispatcher().dispatch(action: Counter.Action.add(1)) == 0)
        #expect(FluxDispatcher.shared.dispatch(action: Other()) == 0)
        #expect(store.state.count == 0)
        #expect(alone.state.count == 0)
    }

    @Test func `Actions of two types in turn each reach the stores of their own type`() {
        struct Text: FluxState {
            enum Action: FluxAction { case append(String) }
            var text = ""
            mutating func handle(action: Action) -> Text? {
                if case .append(let more) = action { text += more }
                return self
            }
        }
        let dispatcher = FluxDispatcher()
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 1)
        #expect(dispatcher.dispatch(action: Text.Action.append("nobody is there")) == 0)
        let text = FluxStore(initialState: Text(), dispatcher: dispatcher)
        for _ in 0..<3 {
            #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 1)
            #expect(dispatcher.dispatch(action: Text.Action.append("a")) == 1)
            #expect(dispatcher.dispatch(action: Text.Action.append("b")) == 1)
        }
        #expect(counter.state.count == 4)
        #expect(text.state.text == "ababab")
    }

    @Test func `Without a dispatcher given, store and creator meet on the shared one`() async {
        struct Private: FluxState {
            enum Action: FluxAction { case set(Int) }
            var value = 0
            mutating func handle(action: Action) -> Private? {
                if case .set(let new) = action { value = new }
                return self
            }
        }
        enum PrivateConverter: FluxActionConverter {
            struct Event: FluxEvent {}
            static func convert(event: Event, dependency: Int, actionHandler: @escaping (Private.Action) -> Void) {
                actionHandler(.set(dependency))
            }
        }
        let store = FluxStore(initialState: Private())
        let creator = FluxActionCreator<PrivateConverter>(dependency: 42)
        creator.fire(PrivateConverter.Event())
        await creator.flush()
        #expect(store.state.value == 42)
    }

    @Test func `An action held as an existential reaches the stores of its own type`() {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let action: any FluxAction = Counter.Action.add(3)
        #expect(dispatcher.dispatch(action: action) == 1)
        #expect(store.state.count == 3)
    }

    struct Noting: FluxState {
        let number: Int
        let order: Locked<[Int]>
        mutating func handle(action: Counter.Action) -> Noting? {
            order.withLock { $0.append(number) }
            return self
        }
    }
}
