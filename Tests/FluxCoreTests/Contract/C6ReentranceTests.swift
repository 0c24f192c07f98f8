import Dispatch
import FluxCore
import Foundation
import TestSupport
import Testing

/// C6: handlers and converters may dispatch, fire, subscribe and unsubscribe; only `handle` may not.
@Suite struct C6ReentranceTests {
    @Test(.stress) func `Stress: 16 subscriptions see states in order while another handler dispatches`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let watched = (0..<16).map { _ in Recorder<Int>() }
        let before = watched[..<8].map { recorder in store.subscribe { recorder.record($0.count) } }
        let echo = store.subscribe { [weak store] state in
            if state.count % 10 != 0 { store?.dispatch(action: .add(1)) }
        }
        let after = watched[8...].map { recorder in store.subscribe { recorder.record($0.count) } }
        for _ in 0..<1_000 {
            store.dispatch(action: .add(1))
            await store.flush()
        }
        // 1,000 dispatches from outside, and one from the handler for each count that is not a multiple of ten.
        for recorder in watched { await recorder.count(10_000) }
        for recorder in watched { #expect(recorder.isCounting(to: 10_000)) }
        (before + [echo] + after).forEach { $0.unsubscribe() }
    }

    @Test func `A handler may dispatch to its dispatcher, fire, subscribe and create stores`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let tokens = Locked<[FluxSubscription]>([])
        let done = Gate()
        let subscription = store.subscribe { [weak store] state in
            switch state.count {
            case 1: dispatcher.dispatch(action: Counter.Action.add(1))
            case 2: creator.fire(.add(1))
            case 3:
                guard let store else { return }
                let token = store.subscribe(startingWithCurrent: true) { _ in done.open() }
                tokens.withLock { $0.append(token) }
                let other = FluxStore(initialState: Log(), dispatcher: dispatcher)
                dispatcher.dispatch(action: Counter.Action.add(1))
                if other.state.entries != [1] { Issue.record("a store made in a handler missed an action") }
            default: break
            }
        }
        store.dispatch(action: .add(1))
        await done.opened()
        #expect(store.state.count == 4)
        subscription.unsubscribe()
        tokens.withLock { $0 = [] }
    }

    @Test func `A converter may send an action and fire on another creator`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let next = FluxActionCreator<CounterConverter>(store: store)
        let creator = FluxActionCreator<Chain>(dependency: next, store: store)
        creator.fire(Chain.Event())
        await creator.flush()
        await next.flush()
        #expect(store.state.entries == [1, 2])
    }

    @Test
    func `An interceptor may dispatch, fire, subscribe, unsubscribe, attach, detach, add and remove`() async throws {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        let late = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let seen = Recorder<[Int]>()
        dispatcher.add(
            Intercept { [store] action, next in
                guard case .add(1)? = action as? Counter.Action else { return next(action) }
                store.dispatch(action: .add(10))
                dispatcher.dispatch(action: Counter.Action.add(20))
                creator.fire(.add(30))
                dispatcher.attach(late)
                let spare = dispatcher.add(Intercept { $1($0) })
                let token = store.subscribe { seen.record($0.entries) }
                let announced = next(action)
                token.unsubscribe()
                spare.remove()
                dispatcher.detach(late)
                return announced
            })
        dispatcher.dispatch(action: Counter.Action.add(1))
        await creator.flush()
        #expect(store.state.entries == [10, 20, 1, 30] || store.state.entries == [10, 20, 30, 1])
        #expect(late.state.entries.contains(1))
    }

    @Test(.stress)
    func `Stress: interceptors of two dispatchers dispatch to each other, and every action is applied`() async {
        let dispatchers = [FluxDispatcher(), FluxDispatcher()]
        let stores = dispatchers.map { FluxStore(initialState: Counter(), dispatcher: $0) }
        let registrations = dispatchers.enumerated().map { index, dispatcher in
            dispatcher.add(
                Intercept { action, next in
                    let announced = next(action)
                    if case .add(let depth)? = action as? Counter.Action, depth > 1 {
                        dispatchers[1 - index].dispatch(action: Counter.Action.add(depth - 1))
                    }
                    return announced
                })
        }
        await onThreads(4) { index in
            for _ in 1...500 { dispatchers[index % 2].dispatch(action: Counter.Action.add(3)) }
        }
        #expect(stores[0].revision + stores[1].revision == 6_000)
        #expect(stores[0].state.count + stores[1].state.count == 12_000)
        registrations.forEach { $0.remove() }
    }

    enum Chain: FluxActionConverter {
        struct Event: FluxEvent {}
        static func convert(
            event: Event, dependency: FluxActionCreator<CounterConverter>,
            actionHandler: @escaping (Counter.Action) -> Void
        ) {
            actionHandler(.add(1))
            dependency.fire(.add(2))
        }
    }

    @Test func `handle that dispatches to its own store stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let place = Locked<FluxStore<Impure>?>(nil)
            let store = FluxStore(initialState: Impure { place.current?.dispatch(action: .run) }, dispatcher: nil)
            place.withLock { $0 = store }
            store.dispatch(action: .run)
        }
        expect(result, names: "dispatch(action:)")
    }

    @Test func `handle that dispatches to another store stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStore(initialState: Counter(), dispatcher: nil)
            let store = FluxStore(initialState: Impure { other.dispatch(action: .add(1)) }, dispatcher: nil)
            store.dispatch(action: .run)
        }
        expect(result, names: "dispatch(action:)")
    }

    @Test func `handle that dispatches to its dispatcher stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            let state = Impure { dispatcher.dispatch(action: Counter.Action.add(1)) }
            let store = FluxStore(initialState: state, dispatcher: dispatcher)
            dispatcher.dispatch(action: Impure.Action.run)
            withExtendedLifetime(store) {}
        }
        expect(result, names: "dispatch(action:)")
    }

    @Test func `handle that subscribes stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStore(initialState: Counter(), dispatcher: nil)
            let store = FluxStore(initialState: Impure { _ = other.subscribe { _ in } }, dispatcher: nil)
            store.dispatch(action: .run)
        }
        expect(result, names: "subscribe")
    }

    @Test func `handle that calls failure or finish stops the program with a message`() async {
        let failure = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let handle = FluxStore(initialState: Counter(), dispatcher: nil).handle
            let state = Impure { Task.immediate { await handle.failure() } }
            FluxStore(initialState: state, dispatcher: nil).dispatch(action: .run)
        }
        expect(failure, names: "failure()")
        let finish = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStore(initialState: Counter(), dispatcher: nil)
            let token = other.subscribe { _ in }
            let state = Impure { Task.immediate { await token.finish() } }
            FluxStore(initialState: state, dispatcher: nil).dispatch(action: .run)
            withExtendedLifetime(other) {}
        }
        expect(finish, names: "finish()")
    }

    @Test func `handle that fires stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let creator = FluxActionCreator<CounterConverter>(dispatcher: FluxDispatcher())
            let store = FluxStore(initialState: Impure { creator.fire(.add(1)) }, dispatcher: nil)
            store.dispatch(action: .run)
        }
        expect(result, names: "fire")
    }

    @Test func `handle that reads or changes a dispatcher stops the program with a message`() async {
        let stores = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            handling { _ = $0.stores }
        }
        expect(stores, names: "FluxDispatcher.stores")
        let detach = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            handling { $0.detach(FluxStore(initialState: Counter(), dispatcher: nil)) }
        }
        expect(detach, names: "detach")
        let place = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStoreInfo(FluxStore(initialState: Counter(), dispatcher: nil).handle)
            handling { _ in _ = other.dispatcher }
        }
        expect(place, names: "the dispatcher of a store")
        let observers = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStore(initialState: Counter(), dispatcher: nil)
            handling { _ in _ = other.handle.eventObservers }
        }
        expect(observers, names: "state or revision of a store")
        let add = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            handling { $0.add(Intercept { action, next in next(action) }) }
        }
        expect(add, names: "add(_:)")
        let remove = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            handling { $0.removeInterceptors { _ in true } }
        }
        expect(remove, names: "remove() or removeInterceptors")
        let registration = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let added = FluxDispatcher().add(Intercept { action, next in next(action) })
            handling { _ in added.remove() }
        }
        expect(registration, names: "remove() or removeInterceptors")
        let ask = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            dispatcher.add(Intercept { action, next in next(action) })
            dispatcher.removeInterceptors { _ in dispatcher.interceptors.isEmpty }
        }
        let message = ask.said
        #expect(message.contains("interceptors was used inside what picks interceptors"))
        let label = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let place = Locked<FluxStore<Impure>?>(nil)
            let store = FluxStore(initialState: Impure { place.current?.handle.label = "cart" }, dispatcher: nil)
            place.withLock { $0 = store }
            store.dispatch(action: .run)
        }
        expect(label, names: "feature(_:_:) or label of a store")
    }

    @Test func `handle that reads its own store stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let place = Locked<FluxStore<Impure>?>(nil)
            let store = FluxStore(initialState: Impure { _ = place.current?.state }, dispatcher: nil)
            place.withLock { $0 = store }
            store.dispatch(action: .run)
        }
        expect(result, names: "state or revision of a store")
    }

    @Test func `handle that reads another store stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStore(initialState: Counter(), dispatcher: nil)
            FluxStore(initialState: Impure { _ = other.revision }, dispatcher: nil).dispatch(action: .run)
        }
        expect(result, names: "state or revision of a store")
    }

    @Test func `handle that uses a store handle or a task stops the program with a message`() async {
        let access = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStore(initialState: Counter(), dispatcher: nil)
            let state = Impure { other.handle.withAccess { _ in } }
            FluxStore(initialState: state, dispatcher: nil).dispatch(action: .run)
        }
        expect(access, names: "FluxStoreHandle.withAccess")
        let cancel = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let task = FluxActionCreator<CounterConverter>(dispatcher: FluxDispatcher()).fire(.nothing)
            FluxStore(initialState: Impure { task.cancel() }, dispatcher: nil).dispatch(action: .run)
        }
        expect(cancel, names: "FluxTask.cancel()")
    }

    @Test func `handle that creates a store stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            let state = Impure { _ = FluxStore(initialState: Counter(), dispatcher: dispatcher) }
            FluxStore(initialState: state, dispatcher: nil).dispatch(action: .run)
        }
        expect(result, names: "FluxStore.init")
    }

    @Test func `Pure code stays pure after nested pure code has returned`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            FluxPureCode.run("the outer one") {
                FluxPureCode.run("the inner one") {}
                store.dispatch(action: .add(1))
            }
        }
        let message = result.said
        #expect(message.contains("dispatch(action:) was used inside the outer one"))
    }

    /// The message must name the call and say what to do instead.
    private func expect(_ result: ExitTest.Result?, names call: String) {
        let message = result.said
        #expect(message.contains("FluxCore: \(call) was used inside FluxState.handle(action:)"))
        #expect(message.contains("Do this in the converter"))
    }

    /// C6, C10: The snapshot of a subscription that left early was once released while the store's lock was held.
    ///
    /// The program then stopped with "Recursive call to lock".
    @Test func `An undelivered snapshot may hold the last token of a subscription of the same store`() async {
        await #expect(processExitsWith: .success) {
            struct Keeper: FluxState {
                var token: FluxSubscription?
                mutating func handle(action: Keep) -> Keeper? {
                    token = action.token
                    return self
                }
            }
            struct Keep: FluxAction { let token: FluxSubscription? }
            let queue = DispatchQueue(label: "suspended")
            queue.suspend()
            let store = FluxStore(initialState: Keeper(), dispatcher: nil)
            store.dispatch(action: Keep(token: store.subscribe { _ in }))
            await store.flush()
            let late = store.subscribe(on: queue, startingWithCurrent: true) { _ in }
            store.dispatch(action: Keep(token: nil))
            await Task.yield()
            late.unsubscribe()
            queue.resume()
        }
    }

    /// Holds a token, as any state may.
    private struct Keeper: FluxState {
        struct Keep: FluxAction { let token: FluxSubscription? }
        var token: FluxSubscription?
        mutating func handle(action: Keep) -> Keeper? {
            token = action.token
            return self
        }

        /// Puts the last token of a subscription into the state and out again; then only pending states hold it.
        ///
        /// `wait` runs in between. The returned gate opens when the subscription's handler is released.
        static func keep(in store: FluxStore<Keeper>, _ wait: () -> Void) -> Gate {
            let gone = Gate()
            let canary = Canary(gone)
            store.dispatch(action: Keep(token: store.subscribe { _ in withExtendedLifetime(canary) {} }))
            wait()
            store.dispatch(action: Keep(token: nil))
            return gone
        }
    }

    @Test func `An undelivered change may hold the last token of a subscription of the same store`() async {
        await #expect(processExitsWith: .success) {
            let (store, queue) = (FluxStore(initialState: Keeper(), dispatcher: nil), DispatchQueue(label: "suspended"))
            queue.suspend()
            let late = store.subscribe(on: queue) { _ in }
            let gone = Keeper.keep(in: store) {}
            late.unsubscribe()
            await gone.opened()
            queue.resume()
        }
    }

    @Test func `An undelivered snapshot may hold the last token when its subscription leaves after others`() async {
        await #expect(processExitsWith: .success) {
            let (store, queue) = (FluxStore(initialState: Keeper(), dispatcher: nil), DispatchQueue(label: "suspended"))
            queue.suspend()
            var late: [FluxSubscription] = []
            func join() { late.append(store.subscribe(on: queue, startingWithCurrent: true) { _ in }) }
            let gone = Keeper.keep(in: store, join)
            for _ in 0..<3 { join() }
            // All subscriptions end before the first one leaves, and the one with the token leaves last.
            FluxPureCode.run("a test") { late.reversed().forEach { $0.unsubscribe() } }
            await gone.opened()
            queue.resume()
        }
    }
}

/// A state whose `handle` runs code that is not allowed there.
struct Impure: FluxState {
    enum Action: FluxAction { case run }
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) {
        self.body = body
    }

    mutating func handle(action: Action) -> Impure? {
        body()
        return self
    }
}

/// Runs a closure inside a `handle` that a dispatcher has called.
private func handling(_ body: @escaping @Sendable (FluxDispatcher) -> Void) {
    let dispatcher = FluxDispatcher()
    let store = FluxStore(initialState: Impure { body(dispatcher) }, dispatcher: dispatcher)
    dispatcher.dispatch(action: Impure.Action.run)
    withExtendedLifetime(store) {}
}
