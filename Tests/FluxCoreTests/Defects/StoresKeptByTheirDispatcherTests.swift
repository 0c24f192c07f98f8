import FluxCore
import FluxRouting
import TestSupport
import Testing

/// A dispatcher that is told to keep a store does so until the store is detached or the dispatcher is released.
@Suite struct StoresKeptByTheirDispatcherTests {
    /// Opens a gate when it is released.
    struct Guarded: FluxState {
        var count = 0
        let canary: Canary

        mutating func handle(action: Counter.Action) -> Guarded? {
            if case .add(let amount) = action { count += amount }
            return self
        }
    }

    private func store(_ gone: Gate) -> FluxStore<Guarded> {
        FluxStore(initialState: Guarded(canary: Canary(gone)), dispatcher: nil)
    }

    @Test func `A store kept only by its dispatcher receives actions until it is detached by its type`() async {
        let (dispatcher, gone) = (FluxDispatcher(), Gate())
        dispatcher.attach(keeping: store(gone))
        #expect(dispatcher.add(1) == 1 && dispatcher.add(1) == 1)
        #expect(!gone.isOpen && dispatcher.stores.count == 1)
        #expect(dispatcher.detach(Guarded.self) == 1)
        await gone.opened()
        #expect(dispatcher.add(1) == 0)
    }

    @Test func `The subscriptions of a kept store continue, and detaching the store releases it`() async {
        let (dispatcher, gone, seen) = (FluxDispatcher(), Gate(), Recorder<Int>())
        weak var reference: FluxStore<Guarded>?
        let token: FluxSubscription
        do {
            let store = store(gone)
            reference = store
            dispatcher.attach(keeping: store)
            token = store.subscribe { seen.record($0.count) }
        }
        for _ in 0..<3 { dispatcher.add(1) }
        await seen.count(3)
        #expect(seen.values == [1, 2, 3])
        if let store = reference { #expect(dispatcher.detach(store)) } else { Issue.record("it was not kept") }
        await gone.opened()
        token.unsubscribe()
    }

    @Test(.stress) func `Stress: a kept store is released with its dispatcher while another one detaches it`() async {
        for _ in 0..<500 {
            let (other, gone) = (FluxDispatcher(), Gate())
            let own = Locked<FluxDispatcher?>(FluxDispatcher())
            let info = Locked<FluxStoreInfo?>(nil)
            do {
                let store = store(gone)
                info.withLock { $0 = FluxStoreInfo(store.handle) }
                own.current?.attach(keeping: store)
            }
            await onThreads(2) { index in
                if index == 0 {
                    var last: FluxDispatcher?
                    own.withLock { swap(&$0, &last) }
                } else if let info = info.current {
                    for _ in 0..<50 { other.detach(info) }
                }
            }
            info.withLock { $0 = nil }
            await gone.opened()
        }
    }

    @Test func `A kept store stays kept with another priority or a name until it is detached`() async throws {
        let (dispatcher, gone) = (FluxDispatcher(), Gate())
        do {
            let store = store(gone)
            dispatcher.attach(keeping: store)
            dispatcher.attach(store, priority: 3)
            try dispatcher.attach(store, as: "guarded")
        }
        #expect(dispatcher.add(1) == 1 && dispatcher.stores.count == 1 && !gone.isOpen)
        #expect(dispatcher.detach(Guarded.self) == 1)
        await gone.opened()
    }

    @Test func `A kept store that moves to another dispatcher in the usual way is not kept there`() async {
        let (dispatcher, other, gone) = (FluxDispatcher(), FluxDispatcher(), Gate())
        do {
            let store = store(gone)
            dispatcher.attach(keeping: store)
            other.attach(store)
            #expect(dispatcher.add(1) == 0 && other.add(1) == 1)
        }
        await gone.opened()
        #expect(other.stores.isEmpty)
    }

    @Test func `A store attached after a kept store does not keep it`() async {
        let (dispatcher, gone, late) = (FluxDispatcher(), Gate(), Gate())
        let place = Locked<FluxStore<Guarded>?>(store(late))
        do {
            let kept = store(gone)
            dispatcher.attach(keeping: kept)
            dispatcher.attach(place.current!)
            #expect(dispatcher.detach(kept))
        }
        await gone.opened()
        #expect(dispatcher.add(1) == 1)
        place.withLock { $0 = nil }
        await late.opened()
    }

    @Test func `A kept store is released with its dispatcher`() async {
        let gone = Gate()
        do {
            let dispatcher = FluxDispatcher()
            dispatcher.attach(keeping: store(gone))
            dispatcher.add(1)
        }
        await gone.opened()
    }

    @Test func `A store attached in the usual way is not kept`() async {
        let (dispatcher, gone) = (FluxDispatcher(), Gate())
        do {
            let store = store(gone)
            dispatcher.attach(store)
        }
        await gone.opened()
        #expect(dispatcher.add(1) == 0)
    }

    @Test func `A kept store that moves to another dispatcher is no longer kept by the first`() async {
        let (first, second, gone) = (FluxDispatcher(), FluxDispatcher(), Gate())
        do {
            let store = store(gone)
            first.attach(keeping: store)
            second.attach(store)
        }
        await gone.opened()
        #expect(first.add(1) == 0 && second.add(1) == 0)
    }

    @Test func `A kept store keeps its reactions and gets the given priority`() {
        let (dispatcher, gone) = (FluxDispatcher(), Gate())
        let log = FluxStore(initialState: Log(), dispatcher: dispatcher)
        do {
            let store = store(gone)
            store.on(LogOut.self) { state, _ in state.count = 0 }
            dispatcher.attach(keeping: store, priority: 1)
        }
        #expect(dispatcher.dispatch(action: LogOut()) == 1)
        #expect(dispatcher.stores.map { $0.isOf(log) } == [false, true])
    }
}
