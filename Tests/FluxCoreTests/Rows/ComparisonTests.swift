import Dispatch
import FluxCore
import Testing

/// The rows of the README's table "Coming from another library": each has a test of its name, with its code.
@Suite struct ComparisonTests {
    let dispatcher = FluxDispatcher()

    // MARK: - Events

    @Test func `Event lists`() async {
        let store = log()
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        creator.fire([.add(1), .add(2), .add(3)])
        await creator.flush()
        #expect(store.state.entries == [1, 2, 3])
    }

    @Test func `Execution queues`() async {
        let store = log()
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let queue = DispatchQueue(label: "work")
        creator.fire(.add(1), executionQueue: queue)
        await creator.flush()
        #expect(store.state.entries == [1])
    }

    @Test func `Custom dispatchers`() async {
        struct Logged: FluxDispatching {
            let lines = Recorder<String>()
            let dispatcher: FluxDispatcher
            func dispatch<Action: FluxAction>(action: Action) -> Int {
                lines.record("\(action)")
                return dispatcher.dispatch(action: action)
            }
        }
        let store = log()
        let logged = Logged(dispatcher: dispatcher)
        let creator = FluxActionCreator<CounterConverter>(dependency: (), dispatcher: logged)
        creator.fire(.add(1))
        await creator.flush()
        #expect(store.state.entries == [1] && logged.lines.values == ["add(1)"])
    }

    // MARK: - Actions

    @Test func `The short form of a dispatch`() {
        let store = log()
        Counter.Action.add(1).dispatch(with: dispatcher)
        Counter.Action.add(2).dispatch()
        #expect(store.state.entries == [1])
    }

    @Test func `Middleware before and after`() {
        let store = log()
        let seen = Recorder<Int>()
        dispatcher.add(.before { _ in seen.record(store.state.entries.count) })
        dispatcher.add(.after { _ in seen.record(store.state.entries.count) })
        dispatcher.add(1)
        #expect(seen.values == [0, 1])
        dispatcher.remove(FluxInterceptor.self)
    }

    @Test func `Pass, replace, stop`() {
        let store = log()
        dispatcher.add(
            .on(Counter.Action.self) { action, next in
                switch action {
                case .add(1): break  // stop
                case .add(2): next(Counter.Action.add(20))  // replace
                default: next(action)  // pass
                }
            })
        for number in 1...3 { dispatcher.add(number) }
        #expect(store.state.entries == [20, 3])
    }

    @Test func `Workers and their priority`() throws {
        let (first, second) = (FluxDispatcher(), FluxDispatcher())
        let (early, late) = (log(first), log(second))
        try dispatcher.attach(second)
        try dispatcher.attach(first, priority: 1)
        first.add(.on(Counter.Action.self) { _, next in next(Counter.Action.add(9)) })
        dispatcher.add(1)
        #expect(early.state.entries == [9] && late.state.entries == [9])
    }

    @Test func `Priority among stores`() {
        let (first, second) = (log(), log())
        dispatcher.attach(second, priority: 1)
        #expect(dispatcher.stores.map { $0.isOf(second) } == [true, false])
        withExtendedLifetime(first) {}
    }

    @Test func `One action for many stores`() {
        let (cart, user) = (log(), FluxStore(initialState: Counter(), dispatcher: dispatcher))
        cart.on(LogOut.self) { state, _ in state.entries = [] }
        user.on(LogOut.self) { state, _ in state.count = 0 }
        #expect(dispatcher.dispatch(action: LogOut()) == 2)
    }

    // MARK: - Stores

    @Test func `Addressing by identifier`() throws {
        let cart = FluxStore(initialState: Log(), dispatcher: nil)
        try dispatcher.attach(cart, as: "cart")
        dispatcher.dispatch(action: Counter.Action.add(1), to: "cart")
        #expect(cart.state.entries == [1])
    }

    @Test func `Unregistering by instance, identifier and type`() throws {
        let (one, two, three) = (log(), log(), log())
        try dispatcher.attach(two, as: "two")
        #expect(dispatcher.detach(one))
        #expect(dispatcher.detach(named: "two"))
        #expect(dispatcher.detach(Log.self) == 1)
        #expect(dispatcher.add(1) == 0)
        withExtendedLifetime(three) {}
    }

    @Test func `A state that is a class`() {
        final class Names: FluxState {
            struct Add: FluxAction { let name: String }
            let all: [String]
            init(_ all: [String] = []) { self.all = all }
            func handle(action: Add) -> Names? { Names(all + [action.name]) }
        }
        let store = FluxStore(initialState: Names(), dispatcher: dispatcher)
        dispatcher.dispatch(action: Names.Add(name: "Ada"))
        #expect(store.state.all == ["Ada"])
    }

    // MARK: - Subscriptions

    @Test func `Subscribing to all stores`() {
        let stores = (log(), FluxStore(initialState: Counter(), dispatcher: dispatcher))
        let seen = Recorder<String>()
        dispatcher.add(
            FluxInterceptor { action, next in
                for change in next.changes(by: action) { seen.record("\(change.store) \(change.revision)") }
            })
        dispatcher.add(1)
        #expect(seen.values == ["FluxStore<Log> 1", "FluxStore<Counter> 1"])
        withExtendedLifetime(stores) {}
    }

    @Test func `Action subscriptions`() async {
        let store = log()
        let (all, some) = (Recorder<String>(), Recorder<Int>())
        let tokens = [
            dispatcher.subscribeActions { all.record("\($0.store) \($0.action)") },
            store.subscribeActions { applied in
                if case .add(let amount) = applied.action { some.record(amount) }
            },
        ]
        dispatcher.add(1)
        await all.count(1)
        await some.count(1)
        for token in tokens { token.unsubscribe() }
        dispatcher.add(2)
        #expect(all.values == ["FluxStore<Log> add(1)"] && some.values == [1])
    }

    @Test func `Automatic unsubscription`() async {
        let store = log()
        let seen = Recorder<[Int]>()
        do {
            let token = store.subscribe { seen.record($0.entries) }
            store.dispatch(action: .add(1))
            await store.flush()
            withExtendedLifetime(token) {}
        }
        store.dispatch(action: .add(2))
        await store.flush()
        #expect(seen.values == [[1]])
    }

    // MARK: - Looking on and back

    @Test func `Undo, redo and looking back`() {
        let store = log()
        let history = FluxHistory(store, limit: 100)
        store.dispatch(action: .add(1))
        history.undo()
        #expect(store.state.entries.isEmpty)
        history.redo()
        #expect(history.entries.map { "\($0.action)" } == ["add(1)"])
    }

    @Test func `Logging and tracing`() {
        struct Lines: FluxHooks {
            let lines = Recorder<String>()
            func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
                lines.record("\(store) \(action)")
            }
        }
        let store = log()
        let lines = Lines()
        let window = dispatcher.watch(lines)
        dispatcher.add(1)
        #expect(lines.lines.values == ["FluxStore<Log> add(1)"])
        window.remove()
        withExtendedLifetime(store) {}
    }

    func log(_ dispatcher: FluxDispatcher? = nil) -> FluxStore<Log> {
        FluxStore(initialState: Log(), dispatcher: dispatcher ?? self.dispatcher)
    }
}
