import FluxCore
import Testing

/// The window: what is told, to whom, and what follows an event through its actions.
@Suite struct HooksTests {
    let dispatcher = FluxDispatcher()

    @Test func `On a store: dispatched, applied and delivered, and nothing once it has ended`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let watcher = Watcher()
        let window = store.watch(watcher)
        let token = store.subscribe { _ in }
        store.dispatch(action: .add(1))
        await watcher.notes.count(3)
        // What the dispatching thread applied and what the store's queue delivered is told in either order.
        #expect(watcher.notes.values[0] == .dispatched(nil))
        #expect(watcher.notes.values.contains(.applied(revision: 1)))
        #expect(watcher.notes.values.contains(.delivered(revision: 1, count: 1, isTimed: true)))
        store.dispatch(action: .addSilently(1))
        #expect(watcher.notes.values.suffix(2) == [.dispatched(nil), .applied(revision: nil)])
        dispatcher.add(1)
        await watcher.notes.count(7)
        #expect(watcher.notes.values.suffix(2).contains(.applied(revision: 2)))
        #expect(watcher.notes.values.suffix(2).contains(.delivered(revision: 2, count: 1, isTimed: true)))
        #expect(watcher.stores.values.allSatisfy { $0.isOf(store) })
        window.remove()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(watcher.notes.values.count == 7)
        token.unsubscribe()
    }

    @Test func `On a dispatcher: one note for the action and one for each store`() throws {
        let stores = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let watcher = Watcher()
        dispatcher.watch(watcher)
        #expect(dispatcher.add(1) == 2)
        #expect(watcher.notes.values == [.dispatched(nil), .applied(revision: 1), .applied(revision: 1)])
        #expect(watcher.stores.values[0].isOf(stores[0]) && watcher.stores.values[1].isOf(stores[1]))
        try dispatcher.attach(stores[0], as: "first")
        dispatcher.dispatch(action: Counter.Action.add(1), to: "first")
        #expect(watcher.notes.values.suffix(2) == [.dispatched(nil), .applied(revision: 2)])
        #expect(watcher.stores.values.last?.name == "first")
    }

    @Test func `Stores are told of in their order, whatever else each of them does`() {
        let plain = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let (recorded, own) = (Watcher(), Watcher())
        let more = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.attach(more, priority: 1)
        let history = FluxHistory(more, limit: 1)
        plain[0].watch(own)
        dispatcher.watch(recorded)
        #expect(dispatcher.add(1) == 3)
        #expect(recorded.stores.values.map { $0.isOf(more) } == [true, false, false])
        #expect(recorded.stores.values[1].isOf(plain[0]) && recorded.stores.values[2].isOf(plain[1]))
        #expect(own.notes.values == [.applied(revision: 1)] && history.entries.count == 1)
        // The first of them has nothing to it, the next has: both are told, the first first.
        dispatcher.attach(plain[1], priority: 2)
        dispatcher.dispatch(action: Counter.Action.addSilently(1))
        #expect(recorded.stores.values[3].isOf(plain[1]) && recorded.stores.values[4].isOf(more))
        #expect(
            recorded.notes.values.suffix(3) == [
                .applied(revision: nil), .applied(revision: nil), .applied(revision: nil),
            ])
    }

    @Test func `An id follows an event through its actions, and through middleware that goes on elsewhere`() async {
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        let watcher = Watcher()
        let origins = Recorder<FluxOrigin?>()
        dispatcher.watch(watcher)
        let kept = Locked<[FluxNext]>([])
        dispatcher.add(FluxInterceptor { _, next in kept.withLock { $0.append(next) } })
        store.add(.before { _ in origins.record(FluxOrigin.current) })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        creator.fire(.addMany([1, 2]))
        creator.fire([.add(3), .nothing, .add(4)])
        await creator.flush()
        await onThreads(1) { _ in for next in kept.current { next(Counter.Action.add(0)) } }
        let fired = watcher.notes.values.compactMap { if case .fired(let origin) = $0 { origin } else { nil } }
        #expect(Set(fired).count == 4)
        #expect(origins.values == [fired[0], fired[0], fired[1], fired[3]])
        #expect(FluxOrigin.current == nil)
        kept.withLock { $0 = [] }
    }

    @Test func `A creator that fires straight at a store tells that store's window`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let watcher = Watcher()
        store.watch(watcher)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        creator.fire(.add(1))
        await creator.flush()
        guard case .fired(let origin) = watcher.notes.values.first else {
            Issue.record("not told")
            return
        }
        #expect(watcher.notes.values == [.fired(origin), .dispatched(origin), .applied(revision: 1)])
    }

    @Test func `Hooks with nothing in them are enough, several watch at once, and may dispatch`() {
        struct Silent: FluxHooks {}
        struct Echo: FluxHooks {
            let store: FluxStore<Counter>
            func applied(_ action: any FluxAction, to other: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
                if store.state.count < 5 { store.dispatch(action: .add(1)) }
            }
        }
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        dispatcher.watch(Silent())
        let echo = store.watch(Echo(store: store))
        dispatcher.add(1)
        #expect(store.state.count == 5)
        echo.remove()
    }
}
