import FluxCore
import FluxRouting
import TestSupport
import Testing

/// Names, priority, attaching, moving and looking at what is attached.
@Suite struct AddressingTests {
    let dispatcher = FluxDispatcher()

    @Test func `An action to a name reaches the store with that name and no other`() throws {
        let (cart, other) = (store(), store())
        try dispatcher.attach(cart, as: "cart")
        try dispatcher.attach(other, as: "other")
        #expect(dispatcher.dispatch(action: Counter.Action.add(1), to: "cart"))
        #expect(cart.state.entries == [1] && other.state.entries.isEmpty)
        #expect(!dispatcher.dispatch(action: Counter.Action.add(1), to: "nobody"))
        #expect(!dispatcher.dispatch(action: LogOut(), to: "cart"))
        #expect(dispatcher.add(2) == 2)
    }

    @Test func `An action to a name passes a child's middleware but reaches none of the child's stores`() throws {
        let (main, child, deeper) = (FluxDispatcher(), dispatcher, FluxDispatcher())
        let cart = FluxStore(initialState: Log(), dispatcher: nil)
        let others = [
            FluxStore(initialState: Log(), dispatcher: child), FluxStore(initialState: Log(), dispatcher: deeper),
        ]
        let spy = Spy()
        child.add(spy)
        try child.attach(deeper)
        try main.attach(child)
        try main.attach(cart, as: "cart")
        #expect(main.dispatch(action: Counter.Action.add(1), to: "cart"))
        #expect(!main.dispatch(action: Counter.Action.add(2), to: "nobody"))
        #expect(cart.state.entries == [1] && others.allSatisfy { $0.state.entries.isEmpty })
        #expect(spy.seen.values.count == 2)
        #expect(main.dispatch(action: Counter.Action.add(3)) == 3)
        withExtendedLifetime(others) {}
    }

    @Test func `An action to a name passes the dispatcher's middleware, which may stop it`() throws {
        let cart = store()
        try dispatcher.attach(cart, as: "cart")
        let spy = Spy()
        dispatcher.add(spy)
        #expect(dispatcher.dispatch(action: Counter.Action.add(1), to: "cart"))
        #expect(spy.seen.values.count == 1)
        dispatcher.add(FluxInterceptor { _, _ in })
        #expect(!dispatcher.dispatch(action: Counter.Action.add(1), to: "cart"))
        #expect(cart.state.entries == [1])
    }

    @Test func `Attaching under a taken name throws an error that names the holder, and changes nothing`() throws {
        let (cart, other) = (store(), store())
        let elsewhere = FluxDispatcher()
        try dispatcher.attach(cart, as: "cart")
        try elsewhere.attach(other, as: "other")
        let error = #expect(throws: FluxNameTaken.self) { try dispatcher.attach(other, as: "cart") }
        #expect(error?.holder.isOf(cart) == true)
        #expect(error?.description.contains("\"cart\" is taken by a FluxStore<Log>") == true)
        #expect(elsewhere.dispatch(action: Counter.Action.add(1), to: "other"))
        #expect(dispatcher.stores.count == 1)
    }

    @Test func `A name is free again once its store is renamed, detached, moved or released`() throws {
        let cart = store()
        try dispatcher.attach(cart, as: "a")
        try dispatcher.attach(cart, as: "b")
        #expect(!dispatcher.dispatch(action: Counter.Action.add(1), to: "a"))
        #expect(dispatcher.detach(named: "b"))
        #expect(!dispatcher.detach(named: "b"))
        try dispatcher.attach(cart, as: "b")
        try FluxDispatcher().attach(cart, as: "b")
        do {
            let brief = store()
            try dispatcher.attach(brief, as: "b")
        }
        let next = store()
        try dispatcher.attach(next, as: "b")
        #expect(dispatcher.stores.map(\.name) == ["b"])
    }

    @Test func `A store attached again under its name keeps it, and messages show it until it is detached`() throws {
        let (cart, other) = (store(), FluxStore(initialState: Log(), dispatcher: dispatcher))
        other.handle.label = "mine"
        for _ in 0..<2 { try dispatcher.attach(cart, as: "cart") }
        #expect(dispatcher.stores.map(\.description) == ["mine", "cart"])
        #expect(dispatcher.detach(named: "cart"))
        #expect(FluxStoreInfo(cart.handle).description == "FluxStore<Log>")
        // A label that the user has set is not removed.
        dispatcher.detach(other)
        #expect(other.handle.label == "mine")
    }

    @Test func `A dispatcher call in pure code stops the program, and the message names the call`() async {
        let asked = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.inPureCode { _ = $0.responds(to: LogOut.self) }
        }
        #expect(said(asked, "responds(to:)"))
        let named = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.inPureCode { try? $0.attach(FluxStore(initialState: Log(), dispatcher: nil), as: "a") }
        }
        #expect(said(named, "attach"))
        let detached = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.inPureCode { $0.detach(named: "a") }
        }
        #expect(said(detached, "detach(named:)"))
        let dispatched = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.inPureCode { $0.dispatch(action: LogOut(), to: "a") }
        }
        #expect(said(dispatched, "dispatch(action:to:)"))
        let above = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.inPureCode { _ = try? $0.attach(FluxDispatcher()) }
        }
        #expect(said(above, "attach"))
        let below = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.inPureCode { $0.detach(FluxDispatcher()) }
        }
        #expect(said(below, "detach"))
    }

    private static func inPureCode(_ body: @escaping @Sendable (FluxDispatcher) -> Void) {
        let dispatcher = FluxDispatcher()
        FluxStore(initialState: Impure { body(dispatcher) }, dispatcher: nil).dispatch(action: .run)
    }

    private func said(_ result: ExitTest.Result?, _ call: String) -> Bool {
        let message = result.said
        return message.contains("FluxCore: \(call) was used inside")
    }

    @Test func `A store is attached, detached and moved at run time`() {
        let other = FluxDispatcher()
        let cart = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.add(1)
        other.attach(cart)
        #expect(dispatcher.add(2) == 0)
        #expect(other.add(3) == 1)
        #expect(!dispatcher.detach(cart))
        #expect(other.detach(cart))
        #expect(other.add(4) == 0)
        dispatcher.attach(cart)
        dispatcher.attach(cart)
        #expect(dispatcher.add(5) == 1)
        #expect(cart.state.entries == [1, 3, 5])
    }

    @Test func `A moved store does not retain its old dispatcher, and leaves the new one when released`() {
        weak var first: FluxDispatcher?
        let second = FluxDispatcher()
        do {
            let cart: FluxStore<Log>
            do {
                let dispatcher = FluxDispatcher()
                first = dispatcher
                cart = FluxStore(initialState: Log(), dispatcher: dispatcher)
                second.attach(cart)
            }
            #expect(first == nil)
            #expect(second.add(1) == 1)
        }
        #expect(second.stores.isEmpty)
    }

    @Test func `Detaching by type of state detaches all stores of that type and no others`() throws {
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let logs = (0..<3).map { _ in FluxStore(initialState: Log(), dispatcher: dispatcher) }
        try dispatcher.attach(logs[1], as: "log")
        #expect(dispatcher.detach(Log.self) == 3)
        #expect(dispatcher.add(1) == 1)
        #expect(dispatcher.detach(Log.self) == 0)
        dispatcher.attach(logs[0])
        #expect(dispatcher.add(1) == 2)
        withExtendedLifetime((counter, logs)) {}
    }

    @Test func `Stores get an action in order of priority, then in order of attachment`() {
        let order = Locked<[Int]>([])
        let stores = (0..<5).map {
            FluxStore(initialState: Noting(number: $0, order: order), dispatcher: dispatcher)
        }
        dispatcher.attach(stores[3], priority: 10)
        dispatcher.attach(stores[1], priority: -1)
        dispatcher.attach(stores[4], priority: 10)
        dispatcher.add(1)
        #expect(order.current == [3, 4, 0, 2, 1])
        #expect(dispatcher.stores.map { info in stores.firstIndex { info.isOf($0) } } == [3, 4, 0, 2, 1])
        dispatcher.detach(stores[4])
        dispatcher.detach(stores[3])
        dispatcher.add(1)
        #expect(order.current.suffix(3) == [0, 2, 1])
    }

    @Test func `stores and responds(to:) report what is attached`() throws {
        #expect(!dispatcher.responds(to: Counter.Action.self) && dispatcher.stores.isEmpty)
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let log = store()
        try dispatcher.attach(log, as: "log")
        let token = log.on(LogOut.self) { state, _ in state.entries = [] }
        #expect(dispatcher.stores.map(\.description) == ["FluxStore<Counter>", "log"])
        #expect(dispatcher.stores[0].stateType == Counter.self && dispatcher.stores[0].isOf(counter))
        #expect(dispatcher.responds(to: Counter.Action.self) && dispatcher.responds(to: LogOut.self))
        token.remove()
        #expect(!dispatcher.responds(to: LogOut.self))
    }

    @Test(.stress)
    func `Stress: a store that moves between two dispatchers counts each action it got once`()
        async
    {
        let dispatchers = [FluxDispatcher(), FluxDispatcher()]
        let store = FluxStore(initialState: Counter(), dispatcher: dispatchers[0])
        let announced = Locked(0)
        await onThreads(3) { index in
            for round in 1...2_000 {
                if index == 2 {
                    dispatchers[round % 2].attach(store, priority: round % 3)
                } else {
                    let count = dispatchers[index].dispatch(
                        action: Counter.Action.mark(producer: index, number: round))
                    announced.withLock { $0 += count }
                }
            }
        }
        #expect(store.state.count == announced.current)
        #expect(store.revision == UInt64(announced.current))
    }

    private func store() -> FluxStore<Log> {
        FluxStore(initialState: Log(), dispatcher: nil)
    }
}
