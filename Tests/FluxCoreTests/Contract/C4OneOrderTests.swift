import Dispatch
import FluxCore
import Testing

/// C4: all stores of one dispatcher see its actions in the same order.
@Suite struct C4OneOrderTests {
    @Test(.stress) func `Stress: two stores of one state type and one of another see one order`() async {
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

    /// Middleware of a dispatcher that blocks, replaces, stops, fans out and comes back from another thread.
    @Test(.stress) func `Stress: two stores see one order past middleware that does all it may`() async {
        let dispatcher = FluxDispatcher()
        let stores = (0..<2).map { _ in FluxStore(initialState: Log(), dispatcher: dispatcher) }
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (later, held) = (DispatchQueue(label: "later"), DispatchSemaphore(value: 1))
        dispatcher.add(
            .on(Counter.Action.self) { action, next in
                guard case .mark(let producer, let number) = action else { return }
                switch number % 6 {
                case 0: break
                case 1: next(Counter.Action.mark(producer: producer, number: -number))
                case 2: for _ in 0..<2 { next(action) }
                case 3: later.async { next(action) }
                case 4: later.sync { _ = next(action) }
                default:
                    held.wait()
                    next(action)
                    held.signal()
                }
            })
        await onThreads(4) { producer in
            for number in 1...1_200 {
                dispatcher.dispatch(action: Counter.Action.mark(producer: producer, number: number))
            }
        }
        later.sync {}
        #expect(stores[0].state.entries.count == 4 * 1_200)
        #expect(stores[0].state.entries == stores[1].state.entries)
        #expect(counter.state.count == 4 * 1_200)
    }

    /// Middleware of single stores: those that have none, and those whose own passes on, still see one order.
    @Test(.stress) func `Stress: stores with middleware of their own see the order of those without`() async {
        let dispatcher = FluxDispatcher()
        let stores = (0..<4).map { _ in FluxStore(initialState: Log(), dispatcher: dispatcher) }
        stores[1].add(.before { _ in })
        stores[2].add(
            .on(Counter.Action.self) { action, next in
                if case .mark(_, let number) = action, number % 3 == 0 { return }
                next(action)
            })
        stores[3].add(
            FluxInterceptor { action, next in
                next(action)
                next(Counter.Action.add(-1))
            })
        await onThreads(4) { producer in
            for number in 1...1_000 {
                dispatcher.dispatch(action: Counter.Action.mark(producer: producer, number: number))
            }
        }
        let all = stores[0].state.entries
        #expect(all.count == 4_000)
        #expect(stores[1].state.entries == all)
        #expect(stores[2].state.entries == all.filter { $0 % 1_000_000 % 3 != 0 })
        #expect(stores[3].state.entries.filter { $0 != -1 } == all)
        #expect(stores[3].state.entries.count == 8_000)
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
