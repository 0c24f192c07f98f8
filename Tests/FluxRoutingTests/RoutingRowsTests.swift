import FluxCore
import FluxRouting
import TestSupport
import Testing

/// The rows of the table "Coming from another library" on the path of an action: each has a test of its name and code.
@Suite struct RoutingRowsTests {
    let dispatcher = FluxDispatcher()

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

    @Test func `Child dispatchers and their priority`() throws {
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

    @Test func `Told of each store before and after, with its state`() {
        let stores = (log(), FluxStore(initialState: Counter(count: 5), dispatcher: dispatcher))
        let seen = Recorder<String>()
        dispatcher.add(
            .before { action, stores in
                for store in stores { seen.record("before \(store) \((store.state as? Counter)?.count ?? 0)") }
            })
        dispatcher.add(
            .after { action, changes in
                for change in changes { seen.record("after \(change.store) \((change.state as? Counter)?.count ?? 0)") }
            })
        dispatcher.add(1)
        #expect(
            seen.values == [
                "before FluxStore<Log> 0", "before FluxStore<Counter> 5", "after FluxStore<Log> 0",
                "after FluxStore<Counter> 6",
            ])
        withExtendedLifetime(stores) {}
    }

    @Test func `The stores below, by the children`() throws {
        let child = FluxDispatcher()
        try dispatcher.attach(child)
        let store = log(child)
        #expect(dispatcher.children.map { $0 === child } == [true])
        #expect(dispatcher.children.flatMap(\.stores).map { $0.isOf(store) } == [true])
        #expect(dispatcher.responds(to: Counter.Action.add(1) as any FluxAction))
        #expect(!dispatcher.responds(to: LogOut() as any FluxAction))
    }

    func log(_ dispatcher: FluxDispatcher? = nil) -> FluxStore<Log> {
        FluxStore(initialState: Log(), dispatcher: dispatcher ?? self.dispatcher)
    }
}
