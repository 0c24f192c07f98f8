import Dispatch
import FluxCore
import FluxObservation
import FluxRouting
import TestSupport
import Testing

extension Optional: FluxAction where Wrapped: FluxAction {}

/// Handles actions that may be nil.
private struct Optionals: FluxState {
    var count = 0

    mutating func handle(action: Counter.Action?) -> Optionals? {
        count += 1
        return self
    }
}

/// What middleware of a dispatcher may do, in which order, and how it is removed.
@Suite struct MiddlewareTests {
    let dispatcher = FluxDispatcher()
    let store: FluxStore<Log>

    init() {
        store = FluxStore(initialState: Log(), dispatcher: dispatcher)
    }

    @Test func `A dispatcher is created with middleware of a type, of closures, or of both`() {
        struct Twice: FluxMiddleware {
            func handle(action: any FluxAction, next: FluxNext) {
                next(action)
                next(action)
            }
        }
        let seen = Locked(0)
        let dispatchers = [
            FluxDispatcher(), FluxDispatcher(middleware: []), FluxDispatcher(middleware: [Twice()]),
            FluxDispatcher(middleware: [.before { _ in seen.withLock { $0 += 1 } }, .after { _ in }]),
            FluxDispatcher(middleware: [Twice(), FluxInterceptor.before { _ in seen.withLock { $0 += 10 } }]),
        ]
        let stores = dispatchers.map { FluxStore(initialState: Counter(), dispatcher: $0) }
        for dispatcher in dispatchers { dispatcher.dispatch(action: Counter.Action.add(1)) }
        #expect(stores.map(\.state.count) == [1, 1, 2, 1, 2])
        #expect(seen.current == 21)
    }

    @Test func `Middleware for a type passes on an action that wraps one of that type`() {
        struct OfCounters: FluxMiddleware {
            func handle(action: Counter.Action, next: FluxNext) { Issue.record("it is \(action)") }
        }
        let (dispatcher, seen) = (FluxDispatcher(middleware: [OfCounters()]), Recorder<String>())
        let store = FluxStore(initialState: Optionals(), dispatcher: dispatcher)
        let token = dispatcher.subscribeActions(of: Counter.Action.self) { seen.record("\($0.action)") }
        dispatcher.dispatch(action: Counter.Action?.some(.add(1)))
        dispatcher.add(.on(Counter.Action.self) { action, _ in Issue.record("it is \(action)") })
        dispatcher.dispatch(action: Counter.Action?.some(.add(1)))
        withExtendedLifetime(token) { #expect(store.state.count == 2 && seen.values.isEmpty) }
    }

    class Order: FluxAction, @unchecked Sendable {}
    final class BigOrder: Order, @unchecked Sendable {}

    @Test func `Middleware for a class gets the actions of its subclasses`() {
        struct OfOrders: FluxMiddleware {
            let seen: Recorder<String>
            func handle(action: Order, next: FluxNext) { seen.record("\(type(of: action))") }
        }
        let seen = Recorder<String>()
        dispatcher.add(OfOrders(seen: seen))
        for order in [Order(), BigOrder()] { dispatcher.dispatch(action: order) }
        #expect(seen.values == ["Order", "BigOrder"])
    }

    @Test func `Each call of next returns the number of changes that this call announced`() {
        let counts = Recorder<Int>()
        dispatcher.add(
            FluxInterceptor { action, next in for _ in 0..<2 { counts.record(next(action)) } }, priority: 1)
        dispatcher.add(.before { _ in })
        #expect(dispatcher.add(1) == 2)
        #expect(counts.values == [1, 1])
    }

    @Test func `After several changes to a store, its reported state is the one after the last change`() {
        let left = Recorder<[Int]?>()
        dispatcher.add(
            .after { [store] _, changes in left.record(changes.state(of: store)?.entries) }, priority: 1)
        dispatcher.add(FluxInterceptor { action, next in for _ in 0..<2 { next(action) } })
        dispatcher.add(7)
        #expect(left.values == [[7, 7]])
    }

    @Test func `A call of next after the changes were reported keeps no state alive`() {
        let (kept, gone) = (Locked<FluxNext?>(nil), Gate())
        let box = FluxStore(initialState: Keeping(), dispatcher: dispatcher)
        dispatcher.add(.after { _, changes in #expect(changes.isEmpty) }, priority: 1)
        let registration = dispatcher.add(FluxInterceptor { _, next in kept.withLock { $0 = next } })
        dispatcher.dispatch(action: Keeping.Action())
        registration.remove()
        kept.current?(Keeping.Action(canary: Canary(gone)))
        kept.current?(Keeping.Action())
        #expect(gone.isOpen)
        withExtendedLifetime((box, kept.current)) {}
    }

    @Test func `Middleware runs before and after an action, which is applied once next returns`() {
        let seen = Recorder<[Int]>()
        dispatcher.add(
            FluxInterceptor { [store] action, next in
                seen.record(store.state.entries)
                #expect(next(action) == 1)
                seen.record(store.state.entries)
            })
        dispatcher.add(.before { [store] _ in seen.record(store.state.entries) })
        dispatcher.add(.after { [store] _ in seen.record(store.state.entries) })
        #expect(dispatcher.add(1) == 1)
        #expect(seen.values == [[], [], [1], [1]])
    }

    @Test func `Middleware replaces an action by one of the same type or of another type`() {
        let counted = Recorder<String>()
        store.on(LogOut.self) { state, action in
            counted.record(action.reason)
            state.entries = []
        }
        dispatcher.add(
            .on(Counter.Action.self) { action, next in
                switch action {
                case .add(1): next(Counter.Action.add(10))
                case .add(2): next(LogOut(reason: "two"))
                default: next(action)
                }
            })
        dispatcher.add(1)
        #expect(store.state.entries == [10])
        #expect(dispatcher.add(2) == 1)
        #expect(store.state.entries == [] && counted.values == ["two"])
        #expect(store.revision == 2)
    }

    @Test func `An interceptor for a class gets the actions of its subclasses`() {
        class Notice: FluxAction, @unchecked Sendable {}
        final class Warning: Notice, @unchecked Sendable {}
        let seen = Recorder<String>()
        dispatcher.add(
            .on(Notice.self) { action, next in
                seen.record("\(type(of: action))")
                next(action)
            })
        dispatcher.dispatch(action: Notice())
        dispatcher.dispatch(action: Warning())
        #expect(seen.values == ["Notice", "Warning"])
    }

    @Test func `Middleware stops an action, or sends several instead`() {
        dispatcher.add(
            .on(Counter.Action.self) { action, next in
                if case .add(let amount) = action { for number in 0..<amount { next(Counter.Action.add(number)) } }
            })
        #expect(dispatcher.add(0) == 0)
        #expect(dispatcher.add(3) == 3)
        #expect(store.state.entries == [0, 1, 2])
    }

    @Test func `A kept next works later and on another thread, and keeps its dispatcher alive`() async {
        let kept = Locked<FluxNext?>(nil)
        let state = Recorder<Int>()
        weak var gone: FluxDispatcher?
        do {
            let dispatcher = FluxDispatcher()
            gone = dispatcher
            let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
            let token = store.subscribe { state.record($0.count) }
            dispatcher.add(FluxInterceptor { _, next in kept.withLock { $0 = next } })
            #expect(dispatcher.add(1) == 0)
            await onThreads(1) { _ in #expect(kept.current?(Counter.Action.add(2)) == 1) }
            await store.flush()
            token.unsubscribe()
        }
        #expect(state.values == [2])
        // The store is released; the dispatcher stays alive as long as `next` may still be called.
        #expect(kept.current?(Counter.Action.add(3)) == 0)
        #expect(gone != nil)
        kept.withLock { $0 = nil }
        #expect(gone == nil)
    }

    @Test func `Middleware gets one type of action, the actions of a protocol, or all actions`() {
        struct Bill: Billable { var amount: Int }
        struct OnlyBillable: FluxMiddleware {
            let seen: Recorder<Int>
            func handle(action: any Billable, next: FluxNext) {
                seen.record(action.amount)
                next(action)
            }
        }
        struct OnlyCounter: FluxMiddleware {
            let seen: Recorder<String>
            func handle(action: Counter.Action, next: FluxNext) {
                seen.record("\(action)")
                next(action)
            }
        }
        let (bills, counts, all) = (Recorder<Int>(), Recorder<String>(), Spy())
        let dispatcher = FluxDispatcher(middleware: [
            OnlyBillable(seen: bills), OnlyCounter(seen: counts), all,
        ])
        dispatcher.dispatch(action: Bill(amount: 5))
        dispatcher.add(1)
        #expect(bills.values == [5])
        #expect(counts.values == ["add(1)"])
        #expect(all.seen.values.count == 2)
    }

    @Test func `Middleware runs in order of priority, then in order of registration`() {
        let order = Recorder<Int>()
        for (priority, number) in [(0, 3), (5, 1), (0, 4), (-1, 5), (5, 2)] {
            dispatcher.add(.before { _ in order.record(number) }, priority: priority)
        }
        dispatcher.add(1)
        #expect(order.values == [1, 2, 3, 4, 5])
    }

    @Test func `Middleware is removed by token, by instance and by type`() {
        struct Marker: FluxMiddleware {
            let order: Recorder<String>
            func handle(action: any FluxAction, next: FluxNext) {
                order.record("marker")
                next(action)
            }
        }
        let order = Recorder<String>()
        let (one, other) = (Spy("one"), Spy("other"))
        let token = dispatcher.add(.before { _ in order.record("token") })
        for spy in [one, other, one] { dispatcher.add(spy) }
        for _ in 0..<2 { dispatcher.add(Marker(order: order)) }
        #expect(dispatcher.remove(one) == 2)
        #expect(dispatcher.remove(one) == 0)
        dispatcher.add(1)
        #expect(order.values == ["token", "marker", "marker"])
        #expect(one.seen.values.isEmpty && other.seen.values.count == 1)
        token.remove()
        token.remove()
        #expect(dispatcher.remove(Marker.self) == 2)
        dispatcher.add(1)
        #expect(order.values.count == 3)
        #expect(other.seen.values.count == 2)
        #expect(dispatcher.remove(Spy.self) == 1)
        dispatcher.add(1)
        #expect(other.seen.values.count == 2)
    }

    @Test func `Middleware that is removed during an action is skipped`() {
        let late = Spy()
        dispatcher.add(.before { [dispatcher] _ in dispatcher.remove(late) })
        dispatcher.add(late)
        dispatcher.add(1)
        #expect(late.seen.values.isEmpty)
        #expect(store.state.entries == [1])
    }

    @Test func `Middleware can remove itself, add middleware for later actions, and attach stores at once`() {
        let added = Spy()
        let stores = Locked<[FluxStore<Log>]>([])
        let token = Locked<FluxRegistration?>(nil)
        let registration = dispatcher.add(
            FluxInterceptor { [dispatcher] action, next in
                token.current?.remove()
                dispatcher.add(added)
                let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
                stores.withLock { $0.append(store) }
                next(action)
            })
        token.withLock { $0 = registration }
        #expect(dispatcher.add(1) == 2)
        #expect(added.seen.values.isEmpty)
        #expect(dispatcher.add(2) == 2)
        #expect(added.seen.values.count == 1)
        #expect(stores.current.map(\.state.entries) == [[1, 2]])
    }

    @Test func `Actions that middleware dispatches are applied at once, before or after the current one`() {
        dispatcher.add(
            .on(Counter.Action.self) { [dispatcher] action, next in
                guard case .add(let amount) = action, amount < 10 else {
                    next(action)
                    return
                }
                #expect(dispatcher.add(amount * 10) == 1)
                next(action)
                #expect(dispatcher.add(amount * 100) == 1)
            })
        #expect(dispatcher.add(1) == 1)
        #expect(store.state.entries == [10, 1, 100])
    }

    @Test func `next.changes(by:) returns the changed stores as the action left them`() {
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let other = FluxStore(initialState: Counter(), dispatcher: nil)
        let changes = Recorder<[FluxStoreChange]>()
        let inner = Recorder<Int>()
        dispatcher.add(
            FluxInterceptor { [store] action, next in
                let found = next.changes(by: action)
                store.dispatch(action: .add(99))
                changes.record(found)
            })
        dispatcher.add(
            FluxInterceptor { action, next in
                // What the inner interceptor reads is part of the result of the outer one too.
                inner.record(next.changes(by: action).count)
            })
        dispatcher.add(7)
        let found = changes.values[0]
        #expect(found.map(\.revision) == [1, 1])
        #expect(found.state(of: store)?.entries == [7])
        #expect(found.state(of: counter)?.count == 7)
        #expect(found.state(of: other) == nil)
        #expect(store.state.entries == [7, 99])
        dispatcher.dispatch(action: Counter.Action.addSilently(1))
        #expect(changes.values[1].isEmpty)
        #expect(inner.values == [2, 0])
    }

    @Test func `Middleware and reactions are released with their dispatcher and store`() {
        let gone = Gate()
        do {
            let canary = Canary(gone)
            let dispatcher = FluxDispatcher()
            let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
            dispatcher.add(.before { _ in _ = canary })
            store.on(LogOut.self) { _, _ in _ = canary }
            dispatcher.add(1)
        }
        #expect(gone.isOpen)
    }

    @Test func `Removed middleware and reactions are released even if their tokens are kept`() {
        let (first, second, third) = (Gate(), Gate(), Gate())
        func tokens() -> [FluxRegistration] {
            let (one, other, another) = (Canary(first), Canary(second), Canary(third))
            return [
                dispatcher.add(.before { _ in _ = one }), dispatcher.add(.after { _ in _ = other }),
                store.on(LogOut.self) { _, _ in _ = another },
            ]
        }
        let kept = tokens()
        dispatcher.add(1)
        kept.forEach { $0.remove() }
        #expect(first.isOpen && second.isOpen && third.isOpen)
    }

    @Test func `next inside handle stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            let kept = Locked<FluxNext?>(nil)
            dispatcher.add(FluxInterceptor { _, next in kept.withLock { $0 = next } })
            dispatcher.add(1)
            let store = FluxStore(
                initialState: Impure { _ = kept.current?(Counter.Action.add(1)) }, dispatcher: nil)
            store.dispatch(action: .run)
        }
        let message = result.said
        #expect(message.contains("next was used inside FluxState.handle(action:)"))
    }

    @Test func `Middleware replaces the actions of a creator, whose flush waits for them`() async {
        dispatcher.add(
            .on(Counter.Action.self) { action, next in
                if case .add(let amount) = action { next(Counter.Action.add(-amount)) }
            })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        creator.fire([.add(1), .add(2)])
        await creator.flush()
        #expect(store.state.entries == [-1, -2])
    }
}

protocol Billable: FluxAction {
    var amount: Int { get }
}
