import Dispatch
import FluxCore
import TestSupport
import Testing

/// C10: releasing a creator loses no event; releasing a store detaches it and ends its subscriptions.
@Suite struct C10ReleaseTests {
    @Test func `All events fired on a creator are converted, even if it is released`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<Int>()
        let subscription = store.subscribe { seen.record($0.count) }
        for _ in 0..<1_000 {
            let creator = FluxActionCreator<CounterConverter>(store: store)
            creator.fire(.add(1))
            creator.fire([.add(1), .add(1)])
        }
        await seen.count(3_000)
        #expect(store.state.count == 3_000)
        subscription.unsubscribe()
    }

    @Test func `A released store leaves its dispatcher and delivers its pending changes`() async {
        let dispatcher = FluxDispatcher()
        let (gate, gone) = (Gate(), Gate())
        let seen = Recorder<Int>()
        var store: FluxStore? = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let canary = Locked<Canary?>(Canary(gone))
        let subscription = store!.subscribe { [canary = canary.current] state in
            gate.wait()
            withExtendedLifetime(canary) { seen.record(state.count) }
        }
        canary.withLock { $0 = nil }
        for _ in 0..<10 { #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 1) }
        store = nil
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 0)
        gate.open()
        await gone.opened()
        #expect(seen.values == Array(1...10))
        subscription.unsubscribe()
    }

    @Test func `A released idle store releases its handlers and state, even if a token is kept`() async {
        let (handlerGone, stateGone) = (Gate(), Gate())
        var token: FluxSubscription?
        do {
            let store = FluxStore(initialState: Owner(canary: Canary(stateGone)), dispatcher: FluxDispatcher())
            let canary = Canary(handlerGone)
            token = store.subscribe { _ in withExtendedLifetime(canary) {} }
        }
        await handlerGone.opened()
        await stateGone.opened()
        withExtendedLifetime(token) {}
        token = nil
    }

    struct Owner: FluxState {
        let canary: Canary
        mutating func handle(action: Counter.Action) -> Owner? { self }
    }

    @Test func `A token and a store may be released inside handle`() async {
        struct Keeper: FluxState {
            var token: FluxSubscription?
            var store: FluxStore<Counter>?
            mutating func handle(action: Counter.Action) -> Keeper? {
                token = nil
                store = nil
                return self
            }
        }
        let dispatcher = FluxDispatcher()
        let watched = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (tokenGone, storeGone) = (Gate(), Gate())
        let seen = Recorder<Int>()
        var state: Keeper? = Keeper()
        // Kept, so the handler is released by the end of the store and not of the token.
        let kept: FluxSubscription
        do {
            let inner = FluxStore(initialState: Counter(), dispatcher: dispatcher)
            let (ofToken, ofStore) = (Canary(tokenGone), Canary(storeGone))
            state?.token = watched.subscribe { state in withExtendedLifetime(ofToken) { seen.record(state.count) } }
            kept = inner.subscribe { _ in withExtendedLifetime(ofStore) {} }
            state?.store = inner
        }
        let keeper = FluxStore(initialState: state.take()!, dispatcher: dispatcher)
        dispatcher.dispatch(action: Counter.Action.add(1))
        await tokenGone.opened()
        await storeGone.opened()
        let announced = dispatcher.dispatch(action: Counter.Action.add(1))
        #expect(announced == 2, "the watched store and the keeper")
        withExtendedLifetime((keeper, watched, kept)) {}
    }

    @Test(.stress)
    func `Stress: stores and subscriptions are created and released while other threads dispatch`() async {
        let dispatcher = FluxDispatcher()
        let lasting = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let isDone = Locked(false)
        let (gone, allGone) = (Locked(0), Gate())
        await onThreads(4) { index in
            if index < 2 {
                var sent = 0
                while !isDone.current || sent < 1_000 {
                    dispatcher.dispatch(action: Counter.Action.add(1))
                    sent += 1
                }
                return
            }
            for round in 0..<2_000 {
                let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
                let canary = Counted(gone, to: 4_000, allGone)
                let own = store.subscribe(startingWithCurrent: round.isMultiple(of: 3)) { [weak store] state in
                    withExtendedLifetime(canary) { _ = (state.count, store?.revision) }
                }
                let other = lasting.subscribe { _ in withExtendedLifetime(canary) {} }
                store.dispatch(action: .add(1))
                if round.isMultiple(of: 2) { own.unsubscribe() }
                withExtendedLifetime(other) {}
            }
            if index == 2 { isDone.withLock { $0 = true } }
        }
        isDone.withLock { $0 = true }
        // A handler that is still running may hold its store.
        await allGone.opened()
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 1)
        withExtendedLifetime(lasting) {}
    }

    /// Opens a gate when the last of a number of instances is released.
    final class Counted: Sendable {
        let gone: Locked<Int>
        let all: Int
        let gate: Gate
        init(_ gone: Locked<Int>, to all: Int, _ gate: Gate) { (self.gone, self.all, self.gate) = (gone, all, gate) }
        deinit {
            let count = gone.withLock { gone in
                gone += 1
                return gone
            }
            if count == all { gate.open() }
        }
    }

    @Test func `A thousand stores, creators and subscriptions are all released after typical use`() async {
        let dispatcher = FluxDispatcher()
        for _ in 0..<1_000 {
            let gone = Gate()
            do {
                let store = FluxStore(initialState: Owner(canary: Canary(gone)), dispatcher: dispatcher)
                let creator = FluxActionCreator<CounterConverter>(store: store)
                let subscription = store.subscribe { [weak creator] _ in creator?.fire(.nothing) }
                creator.fire(.add(1))
                await creator.flush()
                withExtendedLifetime(subscription) {}
            }
            await gone.opened()
        }
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 0)
    }

    @Test func `An event is released when it has ended, even if a later event is still running`() async {
        let creator = FluxActionCreator<Carrying>(dispatcher: FluxDispatcher())
        let (entered, gate, gone) = (Gate(), Gate(), Gate())
        creator.fire(.wait(entering: entered, until: gate))
        await entered.opened()
        creator.fire(.carry(Canary(gone)))
        creator.fire(.wait(entering: Gate(), until: gone))
        gate.open()
        await creator.flush()
    }

    enum Carrying: FluxActionConverter {
        enum Event: FluxEvent { case carry(Canary), wait(entering: Gate, until: Gate) }
        static func convert(event: Event, dependency: Void, actionHandler: @escaping (Counter.Action) -> Void) {
            if case .wait(let entered, let gate) = event {
                entered.open()
                gate.wait()
            }
        }
    }

    @Test func `creator.flush waits until a kept handler is released, and returns early when cancelled`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        await creator.flush()
        let hold = HandlerHold<Counter.Action>()
        creator.fire(.hold(hold))
        await hold.isKept.opened()
        let cancelled = Task { await creator.flush() }
        cancelled.cancel()
        await cancelled.value
        let waiting = Task {
            await creator.flush()
            return store.state.count
        }
        hold.send(.add(3))
        hold.letGo()
        #expect(await waiting.value == 3)
    }

    @Test func `creator.flush waits for all events fired before it, even if the newest end first`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let holds = (0..<3).map { _ in HandlerHold<Counter.Action>() }
        let tasks = holds.map { creator.fire(.hold($0)) }
        for hold in holds { await hold.isKept.opened() }
        let waiting = Task {
            await creator.flush()
            return store.state.count
        }
        for (hold, task) in zip(holds, tasks).reversed() {
            // Gives a flush that returns too early the time to do so.
            for _ in 0..<1_000 { await Task.yield() }
            hold.send(.add(1))
            hold.letGo()
            #expect(await task.outcome.isCompleted)
        }
        #expect(await waiting.value == 3)
    }

    /// What a module keeps with a store.
    final class Feature: Sendable {}

    @Test func `A store that has ended keeps no object of a module, whenever it is created`() async throws {
        var released: FluxStore? = FluxStore(initialState: Log(), dispatcher: nil)
        let handle = try #require(released?.handle)
        let early = handle.feature(Feature.self) { Feature() }
        #expect(handle.featureIfAny(Feature.self) === early)
        released = nil
        #expect(handle.featureIfAny(Feature.self) == nil)
        #expect(await Weak(handle.feature(Feature.self) { Feature() }).isGone())
        #expect(handle.featureIfAny(Feature.self) == nil)
    }
}
