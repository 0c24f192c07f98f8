import Dispatch
import FluxCore
import TestSupport
import Testing

/// C4: all stores of one dispatcher see its actions in the same order.
@Suite struct C4OneOrderTests {
    @Test(.stress) func `Stress: two stores of one state type and one of another apply actions in one order`() async {
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

    @Test func `An action reaches the stores in the order of their attachment`() {
        let dispatcher = FluxDispatcher()
        let order = Locked<[Int]>([])
        let stores = (0..<10).map { FluxStore(initialState: Noting(number: $0, order: order), dispatcher: dispatcher) }
        dispatcher.dispatch(action: Counter.Action.add(1))
        #expect(order.current == Array(0..<10))
        withExtendedLifetime(stores) {}
    }

    @Test func `A priority outside the allowed range counts as the highest or the lowest`() {
        let dispatcher = FluxDispatcher()
        let stores = (0..<5).map { _ in FluxStore(initialState: Counter(), dispatcher: nil) }
        for (store, priority) in zip(stores, [.min, -524_287, 0, .max, 524_287]) {
            dispatcher.attach(store, priority: priority)
        }
        let places = dispatcher.stores.map { place in stores.firstIndex { place.isOf($0) } }
        #expect(places == [3, 4, 2, 0, 1])
    }

    @Test func `A reaction added after the attachment has the priority of its store`() {
        let (dispatcher, order) = (FluxDispatcher(), Recorder<Int>())
        let stores = [0, 5].map { priority in
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            dispatcher.attach(store, priority: priority)
            _ = store.handle.route(LogOut.self) { action in
                .other(action) { _ in
                    order.record(priority)
                    return true
                }
            }
            return store
        }
        #expect(dispatcher.dispatch(action: LogOut()) == 2)
        #expect(order.values == [5, 0])
        withExtendedLifetime(stores) {}
    }

    @Test func `Actions of another type or for another dispatcher do not reach a store`() {
        struct Other: FluxAction {}
        let store = FluxStore(initialState: Counter(), dispatcher: FluxDispatcher())
        let alone = FluxStore(initialState: Counter(), dispatcher: nil)
        #expect(FluxDispatcher().dispatch(action: Counter.Action.add(1)) == 0)
        #expect(FluxDispatcher.shared.dispatch(action: Other()) == 0)
        #expect(store.state.count == 0)
        #expect(alone.state.count == 0)
    }

    @Test func `Alternating actions of two types reach only the stores of their own type`() {
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

    @Test func `A store and a creator without a given dispatcher use the shared one`() async {
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

    @Test func `An action of type any FluxAction reaches the stores of its concrete type`() {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let action: any FluxAction = Counter.Action.add(3)
        #expect(dispatcher.dispatch(action: action) == 1)
        #expect(store.state.count == 3)
    }

    /// The middleware blocks, replaces, stops and repeats actions, and passes some on from another thread.
    @Test(.stress)
    func `Stress: two stores see one order behind middleware that drops, repeats and defers actions`() async {
        let dispatcher = FluxDispatcher()
        let stores = (0..<2).map { _ in FluxStore(initialState: Log(), dispatcher: dispatcher) }
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (later, held) = (DispatchQueue(label: "later"), DispatchSemaphore(value: 1))
        dispatcher.add(
            Intercept { action, next in
                guard case .mark(let producer, let number)? = action as? Counter.Action else { return 0 }
                switch number % 6 {
                case 0: return 0
                case 1: return next(Counter.Action.mark(producer: producer, number: -number))
                case 2: return next(action) + next(action)
                case 3:
                    later.async { next(action) }
                    return 0
                case 4: return later.sync { next(action) }
                default:
                    held.wait()
                    defer { held.signal() }
                    return next(action)
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

    struct Noting: FluxState {
        let number: Int
        let order: Locked<[Int]>
        mutating func handle(action: Counter.Action) -> Noting? {
            order.withLock { $0.append(number) }
            return self
        }
    }
}
