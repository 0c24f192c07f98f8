import FluxCore
import FluxDiagnostics
import FluxObservation
import FluxRouting
import Foundation
import TestSupport
import Testing

/// Instrumentation: what is reported, to which observers, and what follows an event through its actions.
@Suite struct InstrumentationTests {
    let dispatcher = FluxDispatcher()

    @Test func `On a store, each action is reported as dispatched and applied until the registration is removed`() {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let watcher = Watcher()
        let registration = store.instrument(watcher)
        store.dispatch(action: .add(1))
        #expect(watcher.notes.values == [.dispatched(nil), .applied(revision: 1)])
        store.dispatch(action: .addSilently(1))
        #expect(watcher.notes.values.suffix(2) == [.dispatched(nil), .applied(revision: nil)])
        dispatcher.add(1)
        #expect(watcher.notes.values.suffix(2) == [.dispatched(nil), .applied(revision: 2)])
        #expect(watcher.notes.values.count == 6)
        #expect(watcher.stores.values.allSatisfy { $0.isOf(store) })
        registration.remove()
        store.dispatch(action: .add(1))
        #expect(watcher.notes.values.count == 6)
    }

    @Test func `On a store, a restored state is not reported, even after an action that changed nothing`() {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let history = FluxHistory(store, limit: 1)
        store.on(Nothing.self) { (_: inout Counter, _: Nothing) -> Bool in false }
        store.dispatch(action: .add(1))
        let watcher = Watcher()
        store.instrument(watcher)
        dispatcher.dispatch(action: Nothing())
        #expect(watcher.notes.values == [.dispatched(nil)])
        history.undo()
        #expect(store.state.count == 0 && watcher.notes.values == [.dispatched(nil)])
        store.handle.withAccess { _ = $0.apply(.replaced(by: Nothing())) }
        #expect(watcher.notes.values == [.dispatched(nil)])
    }

    struct Nothing: FluxAction {}

    @Test func `On a store, both of two changes in one atomic step are reported`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let watcher = Watcher()
        store.instrument(watcher)
        store.handle.withAccess { access in for _ in 0..<2 { _ = access.apply(.action(.add(1))) } }
        #expect(
            watcher.notes.values == [.dispatched(nil), .dispatched(nil), .applied(revision: 1), .applied(revision: 2)])
    }

    @Test func `On a store, a reported action is not retained`() {
        struct Parcels: FluxState {
            struct Parcel: FluxAction { let canary: Canary }
            mutating func handle(action: Parcel) -> Parcels? { self }
        }
        let (store, gone) = (FluxStore(initialState: Parcels(), dispatcher: nil), Gate())
        store.instrument(Watcher())
        store.dispatch(action: .init(canary: Canary(gone)))
        #expect(gone.isOpen)
    }

    /// Is slow, and adds up all durations.
    private final class Timing: FluxInstrumentation {
        let sum = Locked(Duration.zero)

        /// Returns after a while, with the time that this took.
        static func linger() -> Duration {
            let (clock, start) = (ContinuousClock(), ContinuousClock.now)
            while start.duration(to: clock.now) < .milliseconds(20) {}
            return start.duration(to: clock.now)
        }

        func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { sum.withLock { $0 += Self.linger() } }
        func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
            sum.withLock { $0 += duration }
        }
    }

    @Test func `The reported durations include no time of other stores or of observers`() {
        let stores = (0..<3).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let (clock, timing) = (ContinuousClock(), Timing())
        let registration = stores[0].instrument(timing)
        let ofStore = clock.measure { stores[0].dispatch(action: .add(1)) }
        #expect(timing.sum.current <= ofStore)
        registration.remove()
        timing.sum.withLock { $0 = .zero }
        stores[0].on(LogOut.self) { _, _ in _ = Timing.linger() }
        for store in stores[1...] { store.on(LogOut.self) { _, _ in } }
        dispatcher.instrument(timing)
        let ofDispatcher = clock.measure { _ = dispatcher.dispatch(action: LogOut()) }
        #expect(timing.sum.current <= ofDispatcher)
    }

    /// Does not finish with an action before its gate opens.
    private final class Slow: FluxInstrumentation {
        let gate = Gate()
        func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
            gate.wait()
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `C8: Slow instrumentation delays no subscription, of its own store, of another or of the dispatcher`() async {
        let (slow, told) = (Slow(), Recorder<Int>())
        let stores = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        stores[0].instrument(slow)
        let tokens = stores.map { store in store.subscribe { told.record($0.count) } }
        let actions = stores[0].subscribeActions { _ in told.record(0) }
        let all = dispatcher.subscribeActions { _ in told.record(2) }
        async let done: Void = onThreads(1) { [dispatcher] _ in dispatcher.add(1) }
        await told.count(5)
        #expect(told.values.sorted() == [0, 1, 1, 2, 2])
        slow.gate.open()
        await done
        withExtendedLifetime((stores, tokens, actions, all)) {}
    }

    @Test func `A removed registration does not retain its instrumentation`() {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        var watcher: Watcher? = Watcher()
        let kept = Weak(watcher!)
        let registrations = [store.instrument(watcher!), dispatcher.instrument(watcher!)]
        watcher = nil
        #expect(kept.object != nil)
        for registration in registrations { registration.remove() }
        #expect(kept.object == nil)
        for registration in registrations { registration.remove() }
    }

    /// Records which actions were dispatched, and which were applied without a report of their dispatch before.
    private final class Pairs: FluxInstrumentation {
        let notes = Locked((dispatched: Set<Int>(), alone: [Int]()))

        private func number(_ action: any FluxAction) -> Int {
            if case .add(let number) = action as? Counter.Action { number } else { 0 }
        }

        func dispatched(_ action: any FluxAction, origin: FluxOrigin?) {
            let number = number(action)
            notes.withLock { _ = $0.dispatched.insert(number) }
        }

        func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
            let number = number(action)
            notes.withLock { if !$0.dispatched.contains(number) { $0.alone.append(number) } }
        }
    }

    @Test(.stress) func `Stress: no applied action is reported without its dispatch, while instrumentation changes`()
        async
    {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (pairs, isOver) = (Pairs(), Locked(false))
        async let dispatching: Void = {
            var number = 0
            while !isOver.current {
                number += 1
                dispatcher.dispatch(action: Counter.Action.add(number))
            }
        }()
        while pairs.notes.withLock({ $0.dispatched.count }) < 20_000 {
            let registration = dispatcher.instrument(pairs)
            await Task.yield()
            registration.remove()
        }
        isOver.withLock { $0 = true }
        await dispatching
        #expect(pairs.notes.current.alone.isEmpty && !pairs.notes.current.dispatched.isEmpty)
        withExtendedLifetime(store) {}
    }

    @Test func `On a dispatcher and its child, each reports its own stores`() throws {
        let child = FluxDispatcher()
        let stores = [dispatcher, child].map { FluxStore(initialState: Counter(), dispatcher: $0) }
        try dispatcher.attach(child)
        let watchers = (Watcher(), Watcher())
        let registrations = [dispatcher.instrument(watchers.0), child.instrument(watchers.1)]
        #expect(dispatcher.add(1) == 2)
        #expect(watchers.0.notes.values == [.dispatched(nil), .applied(revision: 1)])
        #expect(watchers.1.notes.values == [.dispatched(nil), .applied(revision: 1)])
        #expect(watchers.0.stores.values[0].isOf(stores[0]) && watchers.1.stores.values[0].isOf(stores[1]))
        registrations.forEach { $0.remove() }
        #expect(dispatcher.add(1) == 2)
        #expect(watchers.0.notes.values.count == 2 && watchers.1.notes.values.count == 2)
        withExtendedLifetime(stores) {}
    }

    @Test func `A replacement by middleware is reported as applied, and a stopped action is not`() {
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        struct Lines: FluxInstrumentation {
            let lines = Recorder<String>()
            func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { lines.record("dispatched \(action)") }
            func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
                lines.record("applied \(action)")
            }
        }
        let lines = Lines()
        dispatcher.instrument(lines)
        dispatcher.add(
            .on(Counter.Action.self) { action, next in
                if case .add(1) = action { next(Counter.Action.add(10)) }
            })
        dispatcher.add(1)
        dispatcher.add(2)
        #expect(lines.lines.values == ["dispatched add(1)", "applied add(10)", "dispatched add(2)"])
        #expect(store.state.entries == [10])
    }

    @Test(arguments: [false, true])
    func `On a dispatcher, a store that leaves or moves right after an action is reported`(moves: Bool) {
        struct Leaving: FluxInstrumentation {
            let other: FluxDispatcher?
            let store: FluxStore<Counter>

            func applied(_ action: any FluxAction, to info: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
                if let other { other.attach(store) } else { info.dispatcher?.detach(info) }
            }
        }
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let watcher = Watcher()
        dispatcher.instrument(watcher)
        let leaving = store.instrument(Leaving(other: moves ? FluxDispatcher() : nil, store: store))
        defer { leaving.remove() }
        #expect(dispatcher.add(1) == 1 && dispatcher.add(1) == 0)
        #expect(watcher.notes.values == [.dispatched(nil), .applied(revision: 1), .dispatched(nil)])
    }

    /// Makes a dispatcher apply an action while a store moves from it to another one.
    final class Meanwhile: FluxDispatcherObserver {
        let former: FluxDispatcher
        let applying = DispatchGroup()
        init(_ former: FluxDispatcher) { self.former = former }

        func attached<State>(_ handle: FluxStoreHandle<State>) {
            applying.enter()
            Thread.detachNewThread { [former, applying] in
                former.add(5)
                applying.leave()
            }
            while (handle.state as? Counter)?.count != 5 { sched_yield() }
        }
        func detached<State>(_ handle: FluxStoreHandle<State>) {}
    }

    @Test(.timeLimit(.minutes(1))) func `On a dispatcher, an action to a store that is moving away is reported`() {
        let (other, meanwhile, watcher) = (FluxDispatcher(), Meanwhile(dispatcher), Watcher())
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let info = FluxStoreInfo(store.handle)
        dispatcher.instrument(watcher)
        other.observe(meanwhile)
        let place = info.place
        other.attach(store)
        meanwhile.applying.wait()
        #expect(watcher.notes.values == [.dispatched(nil), .applied(revision: 1)])
        #expect(info.dispatcher === other && info.place != place && other.add(1) == 1)
        other.remove(meanwhile)
    }

    @Test func `On a dispatcher, an action is reported once, and once more for each store`() throws {
        let stores = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let watcher = Watcher()
        dispatcher.instrument(watcher)
        #expect(dispatcher.add(1) == 2)
        #expect(watcher.notes.values == [.dispatched(nil), .applied(revision: 1), .applied(revision: 1)])
        #expect(watcher.stores.values[0].isOf(stores[0]) && watcher.stores.values[1].isOf(stores[1]))
        try dispatcher.attach(stores[0], as: "first")
        dispatcher.dispatch(action: Counter.Action.add(1), to: "first")
        #expect(watcher.notes.values.suffix(2) == [.dispatched(nil), .applied(revision: 2)])
        #expect(watcher.stores.values.last?.name == "first")
        withExtendedLifetime(stores) {}
    }

    @Test func `Stores are reported in their order, whatever histories and instrumentation they have`() {
        let plain = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let (recorded, own) = (Watcher(), Watcher())
        let more = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.attach(more, priority: 1)
        let history = FluxHistory(more, limit: 1)
        plain[0].instrument(own)
        dispatcher.instrument(recorded)
        #expect(dispatcher.add(1) == 3)
        #expect(recorded.stores.values.map { $0.isOf(more) } == [true, false, false])
        #expect(recorded.stores.values[1].isOf(plain[0]) && recorded.stores.values[2].isOf(plain[1]))
        #expect(own.notes.values == [.dispatched(nil), .applied(revision: 1)] && history.entries.count == 1)
        // The first of the stores has no observers of its own, the next one has: both are reported, in their order.
        dispatcher.attach(plain[1], priority: 2)
        dispatcher.dispatch(action: Counter.Action.addSilently(1))
        #expect(recorded.stores.values[3].isOf(plain[1]) && recorded.stores.values[4].isOf(more))
        #expect(
            recorded.notes.values.suffix(3) == [
                .applied(revision: nil), .applied(revision: nil), .applied(revision: nil),
            ])
    }

    @Test func `The origin of an event follows its actions, also through middleware that continues later`() async {
        struct Origins: FluxInstrumentation {
            let origins: Recorder<FluxOrigin?>
            func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { origins.record(FluxOrigin.current) }
        }
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        let watcher = Watcher()
        let origins = Recorder<FluxOrigin?>()
        dispatcher.instrument(watcher)
        let kept = Locked<[FluxNext]>([])
        dispatcher.add(FluxInterceptor { _, next in kept.withLock { $0.append(next) } })
        store.instrument(Origins(origins: origins))
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

    @Test func `A creator of a store reports its events to the instrumentation of that store`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let watcher = Watcher()
        store.instrument(watcher)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        creator.fire(.add(1))
        await creator.flush()
        guard case .fired(let origin) = watcher.notes.values.first else {
            Issue.record("not told")
            return
        }
        #expect(watcher.notes.values == [.fired(origin), .dispatched(origin), .applied(revision: 1)])
    }

    @Test func `Instrumentation can be empty, can be one of several, and may dispatch`() {
        struct Silent: FluxInstrumentation {}
        struct Echo: FluxInstrumentation {
            let store: FluxStore<Counter>
            func applied(_ action: any FluxAction, to other: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
                if store.state.count < 5 { store.dispatch(action: .add(1)) }
            }
        }
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        dispatcher.instrument(Silent())
        let echo = store.instrument(Echo(store: store))
        dispatcher.add(1)
        #expect(store.state.count == 5)
        echo.remove()
    }
}
