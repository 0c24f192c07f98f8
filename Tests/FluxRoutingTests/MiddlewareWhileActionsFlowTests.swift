import FluxCore
import FluxDiagnostics
import FluxRouting
import TestSupport
import Testing

/// While actions flow and parts are added and removed, each action is applied once and no part is called once removed.
@Suite struct MiddlewareWhileActionsFlowTests {
    struct Silent: FluxInstrumentation {}

    @Test func `Actions are applied once while middleware, instrumentation, names and histories come and go`()
        async throws
    {
        let dispatcher = FluxDispatcher()
        let stores = (0..<3).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let isOver = Flag()
        let late = Locked(0)
        await onThreads(4) { index in
            if index < 2 {
                for number in 1...3_000 {
                    dispatcher.dispatch(action: Counter.Action.mark(producer: index, number: number))
                    stores[index].dispatch(action: .addSilently(0))
                }
                if index == 0 { isOver.set() }
                return
            }
            var round = 0
            while !isOver.isSet {
                round += 1
                let removed = Flag()
                let store = stores[round % 3]
                let registrations = [
                    // This thread dispatches after the removal, so that action must not be seen.
                    dispatcher.add(
                        .on(LogOut.self) { action, next in
                            if removed.isSet && action.reason == "\(index)" { late.withLock { $0 += 1 } }
                            next(action)
                        }, priority: round % 3),
                    dispatcher.instrument(Silent()), store.instrument(Silent()),
                ]
                let history = FluxHistory(store, limit: 2)
                try? dispatcher.attach(store, as: "\(index)", priority: round % 2)
                registrations.forEach { $0.remove() }
                removed.set()
                dispatcher.dispatch(action: LogOut(reason: "\(index)"))
                withExtendedLifetime(history) {}
            }
        }
        #expect(late.current == 0)
        for store in stores {
            #expect(store.state.count == 6_000)
            #expect(store.state.disorder == 0)
        }
        #expect(dispatcher.add(1) == 3)
        withExtendedLifetime(stores) {}
    }

    @Test func `Two dispatchers whose middleware dispatches on the other do not deadlock`() async {
        let dispatchers = (FluxDispatcher(), FluxDispatcher())
        let stores = (
            FluxStore(initialState: Counter(), dispatcher: dispatchers.0),
            FluxStore(initialState: Counter(), dispatcher: dispatchers.1)
        )
        let registrations = [(dispatchers.0, dispatchers.1), (dispatchers.1, dispatchers.0)].map { one, other in
            one.add(
                .on(LogOut.self) { action, next in
                    other.dispatch(action: Counter.Action.add(1))
                    next(action)
                    one.dispatch(action: Counter.Action.add(1))
                })
        }
        await onThreads(2) { index in
            for _ in 0..<2_000 { (index == 0 ? dispatchers.0 : dispatchers.1).dispatch(action: LogOut()) }
        }
        #expect(stores.0.state.count == 4_000 && stores.1.state.count == 4_000)
        registrations.forEach { $0.remove() }
    }

    @Test
    func `A dispatcher, a store and a token released off the dispatching thread leave nothing behind`()
        async
    {
        for _ in 0..<300 {
            let gone = Gate()
            do {
                let canary = Canary(gone)
                let dispatcher = FluxDispatcher()
                let store = Locked<FluxStore<Counter>?>(FluxStore(initialState: Counter(), dispatcher: dispatcher))
                let token = dispatcher.add(.before { _ in _ = canary })
                store.current?.on(LogOut.self) { _, _ in _ = canary }
                await onThreads(3) { index in
                    switch index {
                    case 0: for _ in 0..<20 { dispatcher.add(1) }
                    case 1: store.withLock { $0 = nil }
                    default: token.remove()
                    }
                }
            }
            await gone.opened()
        }
    }
}
