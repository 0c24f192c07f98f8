import Synchronization
import Testing

@testable import FluxCore

/// Middleware of a single store, and what a store does about actions that are not its state's own.
@Suite struct StoreMiddlewareTests {
    let dispatcher = FluxDispatcher()

    @Test func `It gets what is dispatched to the store, and what comes by way of the dispatcher`() {
        let (mine, other) = (log(), log())
        let spy = Spy()
        mine.add(spy)
        #expect(mine.dispatch(action: .add(1)) == 1)
        #expect(dispatcher.add(2) == 2)
        #expect(spy.seen.values == ["add(1)", "add(2)"])
        #expect(mine.state.entries == [1, 2] && other.state.entries == [2])
        #expect(mine.remove(spy) == 1)
        dispatcher.add(3)
        #expect(spy.seen.values.count == 2)
    }

    @Test func `With the last of it gone, actions go the short way again`() {
        let store = log()
        let tokens = [store.add(Spy()), store.add(.before { _ in })]
        store.on(LogOut.self) { _, _ in }
        #expect(dispatcher.detours.load(ordering: .relaxed) & FluxDetours.guards != 0)
        tokens[0].remove()
        #expect(dispatcher.detours.load(ordering: .relaxed) & FluxDetours.guards != 0)
        tokens[1].remove()
        #expect(dispatcher.detours.load(ordering: .relaxed) == 0)
        store.add(Spy())
        #expect(store.remove(Spy.self) == 1)
        #expect(dispatcher.detours.load(ordering: .relaxed) == 0)
        #expect(dispatcher.add(1) == 1)
    }

    @Test func `Thousands may come and go`() {
        let stores = (0..<3_000).map { _ in log() }
        for store in stores { store.add(.before { _ in }).remove() }
        #expect(dispatcher.add(1) == 3_000)
    }

    @Test func `It replaces, stops and multiplies for its own store alone`() {
        let (mine, other) = (log(), log())
        mine.add(
            .on(Counter.Action.self) { action, next in
                guard case .add(let amount) = action else { return }
                for number in 0..<amount { next(Counter.Action.add(number * 10)) }
            })
        #expect(dispatcher.add(0) == 1)
        #expect(dispatcher.add(1) == 2)
        #expect(dispatcher.add(3) == 4)
        #expect(mine.state.entries == [0, 0, 10, 20])
        #expect(other.state.entries == [0, 1, 3])
        #expect(mine.dispatch(action: .add(0)) == nil)
        #expect(mine.dispatch(action: .add(2)) == 6)
    }

    @Test func `After next all stores have the action, and their changes can be read`() {
        let (mine, other) = (log(), log())
        let seen = Recorder<[[Int]]>()
        mine.add(
            FluxInterceptor { [mine, other] action, next in
                let changes = next.changes(by: action)
                seen.record([changes.state(of: mine)?.entries ?? [], changes.state(of: other)?.entries ?? []])
            })
        dispatcher.add(1)
        mine.dispatch(action: .add(2))
        #expect(seen.values == [[[1], [1]], [[1, 2], []]])
        mine.remove(FluxInterceptor.self)
    }

    @Test func `It may go on later, from another thread, for its own store`() async {
        let (mine, other) = (log(), log())
        let kept = Locked<[FluxNext]>([])
        mine.add(FluxInterceptor { _, next in kept.withLock { $0.append(next) } })
        #expect(dispatcher.add(1) == 1)
        #expect(mine.dispatch(action: .add(2)) == nil)
        #expect(other.state.entries == [1])
        await onThreads(1) { _ in for next in kept.current { next(Counter.Action.add(9)) } }
        #expect(mine.state.entries == [9, 9] && other.state.entries == [1])
        kept.withLock { $0 = [] }
    }

    @Test func `Middleware of several stores runs in the order of the stores, one within the other`() {
        let order = Recorder<String>()
        let stores = ["a", "b", "c"].map { name in
            let store = log()
            store.add(
                FluxInterceptor { action, next in
                    order.record("\(name) in")
                    next(action)
                    order.record("\(name) out")
                })
            return store
        }
        dispatcher.attach(stores[2], priority: 1)
        dispatcher.add(1)
        #expect(order.values == ["c in", "a in", "b in", "b out", "a out", "c out"])
        #expect(stores.allSatisfy { $0.state.entries == [1] })
    }

    @Test func `A store reacts to other types of action until that is removed, as an announced change`() async {
        let (mine, other) = (log(), log())
        let seen = Recorder<[Int]>()
        let token = mine.subscribe { seen.record($0.entries) }
        let reaction = mine.on(LogOut.self) { state, action in state.entries = [action.reason.count] }
        #expect(dispatcher.dispatch(action: LogOut(reason: "bye")) == 1)
        #expect(mine.revision == 1 && other.revision == 0)
        dispatcher.add(1)
        await mine.flush()
        #expect(seen.values == [[3], [3, 1]])
        reaction.remove()
        reaction.remove()
        #expect(dispatcher.dispatch(action: LogOut()) == 0)
        mine.on(LogOut.self) { state, _ in state.entries = [] }
        #expect(dispatcher.dispatch(action: LogOut()) == 1)
        token.unsubscribe()
    }

    @Test func `A reaction moves with its store, and serves a name`() throws {
        let mine = log()
        mine.on(LogOut.self) { state, _ in state.entries = [] }
        mine.dispatch(action: .add(1))
        let other = FluxDispatcher()
        try other.attach(mine, as: "mine")
        #expect(dispatcher.dispatch(action: LogOut()) == 0)
        #expect(other.dispatch(action: LogOut(), to: "mine"))
        #expect(mine.state.entries.isEmpty)
    }

    @Test func `A second reaction to the same type stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Log(), dispatcher: nil)
            store.on(LogOut.self) { _, _ in }
            store.on(LogOut.self) { _, _ in }
        }
        let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(message.contains("takes that type already"))
    }

    @Test func `A reaction that dispatches stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
            store.on(LogOut.self) { _, _ in dispatcher.add(1) }
            dispatcher.dispatch(action: LogOut())
        }
        let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(message.contains("was used inside FluxState.handle(action:)"))
    }

    private func log() -> FluxStore<Log> {
        FluxStore(initialState: Log(), dispatcher: dispatcher)
    }
}
